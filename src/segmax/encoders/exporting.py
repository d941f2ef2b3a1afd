"""Exporting models, so that ONNX Runtime or OpenVINO can run them: once in float32, once in 8 bits.

Weights are rounded per column of a layer. What goes into a layer is rounded while it runs, by the largest value in the
text; texts run one by one, so the vector of a text never depends on other texts.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from segmax.base.errors import ConfigError, SegmaxError
from segmax.base.files import check_replaceable, folders_of_writers, replacing_folder, write_errors
from segmax.base.optional import need
from segmax.base.system import locked_folder
from segmax.encoders.exported import (
    FILES,
    TOKENIZER,
    Description,
    Exported,
    cached_place,
    described,
    files_of,
    find_export,
    opened,
)
from segmax.encoders.model_files import EXPORT_NAME
from segmax.encoders.runtimes import OnnxRuntime
from segmax.encoders.table_files import EXPORTED_TABLE
from segmax.encoders.torch_network import MaskedLanguageNetwork, TokenWeightNetwork
from segmax.encoders.word_pieces import Pieces

if TYPE_CHECKING:
    from segmax.encoders.transformer import TransformerEncoder

_SLICE = 8192  # columns of the head that are worked on together, so that their logits stay in the cache
#: Texts whose vectors are short, to measure the noise of 8 bits on.
_SHORT_TEXTS = ("weather", "a", "2024", "microwave noise", "what is a diode", "?")
_MOST_NOISE = 0.12  # as a share of a vector's length: a cosine of .993
_MOST_BYTES = 2_000_000_000  # of a file in the format of ONNX


def open_exported(encoder: TransformerEncoder) -> Exported:
    """Open the export of a model for the backend that an encoder asks for; make it first if there is none."""
    return opened(export(encoder), encoder, backend=encoder.backend, dtype=encoder.dtype)


def export(encoder: TransformerEncoder, *, again: bool = False) -> Path:
    """Return the export of the model of an encoder; make it in the user's cache if there is none, or `again`.

    Processes take turns, so that those that want the same export make it once.

    Raises
    ------
    ConfigError
        The user has no cache.
    MissingPackageError, SegmaxError, WriteError
        As for `write_export`.
    """
    found = None if again else _found(encoder)
    target = cached_place(encoder.name)
    if found is not None:
        if target is not None and _leftovers(target):
            with contextlib.suppress(OSError), _only_writer(target):  # a cache may be one that only others write to
                pass
        return found
    _need_packages()
    if target is None:
        raise ConfigError(
            where="exporting a model",
            expected="a folder for the cache",
            got="a user without a home",
            hint="set XDG_CACHE_HOME, or choose a folder: segmax encoder export MODEL OUT",
        )
    with write_errors(target), _only_writer(target):
        found = None if again else _found(encoder)  # by now another process may have made it
        if found is None:
            with replacing_folder(target) as folder:
                write_export(encoder, folder)
    return found or target


def export_to(encoder: TransformerEncoder, target: Path, *, overwrite: bool) -> None:
    """Write an export that is an encoder by itself; an export that is there already is copied.

    Raises
    ------
    IndexExistsError
        Something is at the path, and it is not an export to overwrite.
    """
    found = None if overwrite else _found(encoder)
    with write_errors(target), _only_writer(target):
        check_export_target(target, overwrite=overwrite)
        with replacing_folder(target) as folder:
            if found is None:
                write_export(encoder, folder)
            else:
                for name in (*sorted(set(FILES.values())), TOKENIZER, EXPORT_NAME):
                    shutil.copyfile(found / name, folder / name)
            table = encoder.query_table
            if table is not None:
                table.save(folder / EXPORTED_TABLE)


@contextlib.contextmanager
def _only_writer(target: Path) -> Iterator[None]:
    """Be the only process that writes exports beside a path; remove what killed ones have left there for this path."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked_folder(target.parent):
        for left in _leftovers(target):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _leftovers(target: Path) -> list[Path]:
    """Return the folders of `replacing_folder` beside a path, except one that keeps what was there before."""
    return [path for path in folders_of_writers(target) if target.exists() or not (path / "old").exists()]


def check_export_target(target: Path, *, overwrite: bool) -> None:
    """Raise IndexExistsError if an export must not be written to a path."""
    check_replaceable(target, EXPORT_NAME, "an export", overwrite=overwrite)


def _found(encoder: TransformerEncoder) -> Path | None:
    return find_export(encoder.name, type(encoder).__name__)


def _need_packages() -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        need(package, "exporting a model", "onnx")


def write_export(encoder: TransformerEncoder, folder: Path) -> None:
    """Write the export of the model of an encoder to an empty folder.

    Raises
    ------
    MissingPackageError
        Exporting needs torch, onnx, onnxscript and onnxruntime.
    SegmaxError
        The model cannot be exported.
    """
    _need_packages()
    loaded = encoder.in_float32()
    network = loaded._network
    if not loaded.encodes_all() or not isinstance(network, (MaskedLanguageNetwork, TokenWeightNetwork)):
        msg = f"'{encoder.name}' cannot be exported: it is no masked language model with SPLADE's pooling"
        raise SegmaxError(msg, hint="use {backend='torch'}")
    documents, queries = loaded.text_sides()
    description = Description(
        kind=type(encoder).__name__,
        num_columns=len(loaded.vocabulary),
        of_tokens=isinstance(network, TokenWeightNetwork),
        documents=documents,
        queries=queries,
        positions=loaded.positions(),
        separator=loaded.separator(),
    )
    pieces = loaded._network.prepare(_SHORT_TEXTS, queries=False)
    _write_models(network, folder)
    (folder / TOKENIZER).write_text(loaded.tokenizer_json(), encoding="utf-8")
    description = description._replace(weak=_weak(folder, pieces))
    (folder / EXPORT_NAME).write_bytes(described(description, files_of(encoder.name)))


def _write_models(network: MaskedLanguageNetwork | TokenWeightNetwork, folder: Path) -> None:
    """Write a model in float32 and in 8 bits."""
    torch = network._torch
    graph = (
        _masked_graph(torch, network) if isinstance(network, MaskedLanguageNetwork) else _token_graph(torch, network)
    )
    whole = folder / FILES["float32"]
    with _quiet():
        try:
            program = torch.onnx.export(
                graph.eval(),
                (torch.arange(5, 29)[None],),
                dynamo=True,
                dynamic_shapes=({1: torch.export.Dim.DYNAMIC},),
                input_names=["tokens"],
                output_names=["weights", "hidden"],
                external_data=False,
                verbose=False,
            )
            program.save(str(whole))
        except Exception as error:  # the exporter raises whatever its parts raise
            msg = f"the model cannot be exported ({str(error).splitlines()[0][:200]})"
            raise SegmaxError(msg, hint="use {backend='torch'}") from error
        if whole.stat().st_size > _MOST_BYTES:
            msg = f"the model cannot be exported: {whole.stat().st_size:,} bytes are more than a file of ONNX may have"
            raise SegmaxError(msg, hint="use {backend='torch'}")
        quantization = need("onnxruntime.quantization", "exporting a model", "onnx")
        quantization.quantize_dynamic(
            str(whole),
            str(folder / FILES["int8"]),
            per_channel=True,
            weight_type=quantization.QuantType.QInt8,
            op_types_to_quantize=["MatMul", "Gemm"],
            nodes_to_exclude=_kept_whole(whole, len(getattr(graph, "parts", ()))),
            extra_options={"MatMulConstBOnly": True},
        )


def _kept_whole(file: Path, num_slices: int) -> list[str]:
    """Return the layers that stay in float32, because 8 bits cost most there and save least.

    These are the layers that lead from a wide one back, whose inputs have the largest outliers, and the one right
    before the head. On splade-mini they take a fifth of the multiplications and more than half of the loss: cosines
    rise from .9955 to .9982 on passages.
    """
    graph = need("onnx", "exporting a model", "onnx").load(str(file)).graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    layers = [(node.name, shapes[node.input[1]]) for node in graph.node if _is_layer(node, shapes)]
    body = layers[: len(layers) - num_slices]
    before_head = [name for name, _ in body[-1:]] if num_slices else []
    return [name for name, (rows, columns) in body if rows > columns] + before_head


def _is_layer(node: Any, shapes: dict[str, tuple[int, ...]]) -> bool:
    return node.op_type == "MatMul" and len(shapes.get(node.input[1], ())) == 2


def _weak(folder: Path, texts: list[Pieces]) -> float:
    """Return how long a vector must be for the noise of 8 bits to leave its direction as it is."""
    whole, rounded = (OnnxRuntime(folder / FILES[dtype]) for dtype in ("float32", "int8"))
    noise = [
        float(np.linalg.norm(whole(pieces, wants_hidden=False)[0] - rounded(pieces, wants_hidden=False)[0]))
        for pieces in texts
    ]
    return max(noise) / _MOST_NOISE


def _masked_graph(torch: Any, network: Any) -> Any:
    """Return what a masked language model computes for one text, as a module."""
    headless = network.headless

    class MaskedGraph(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.headless = headless
            parts = headless.columns.detach().T.split(_SLICE, 1)
            self.parts = torch.nn.ParameterList(
                [torch.nn.Parameter(part.contiguous().clone(), requires_grad=False) for part in parts]
            )

        def forward(self, tokens: Any) -> tuple[Any, Any]:
            states, hidden = self.headless(tokens, None, True)
            if network.skipped:
                read = torch.ones_like(tokens, dtype=torch.bool)
                for piece in network.skipped:
                    read = read & (tokens != piece)
                first = read.int().argmax(1, keepdim=True).unsqueeze(-1).expand(-1, 1, states.shape[-1])
                states = torch.where(read.unsqueeze(-1), states, states.gather(1, first))
            largest = torch.cat([(states @ part).amax(1) for part in self.parts], 1)
            weights = torch.relu(largest + self.headless.bias)
            for _ in range(network.logs):
                weights = torch.log1p(weights)
            if network.skipped:
                weights = weights * read.any(1, keepdim=True)
            return weights, hidden

    return MaskedGraph()


def _token_graph(torch: Any, network: Any) -> Any:
    """Return what uniCOIL computes for one text, as a module: a weight per token."""
    model = network.model

    class TokenGraph(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: Any) -> tuple[Any, Any]:
            hidden = self.model["bert"](input_ids=tokens).last_hidden_state
            weights = torch.relu(self.model["tok_proj"](hidden)).squeeze(-1)
            for piece in network.skipped:
                weights = weights * (tokens != piece)
            return weights, hidden

    return TokenGraph()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter and the quantizer from writing to the terminal, and from adding handlers to the root logger."""
    root = logging.getLogger()
    handlers, disabled = list(root.handlers), logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        root.handlers[:] = handlers
