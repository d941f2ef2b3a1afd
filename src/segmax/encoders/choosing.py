"""How a model computes, where the caller leaves it open: on a CPU in 8 bits, if that is near enough to float32."""

from __future__ import annotations

import importlib.util
import itertools
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from segmax.base.errors import ConfigError, InputError, MissingPackageError, SegmaxError
from segmax.encoders.exported import FILES, Exported, find_export, opened
from segmax.encoders.exporting import check_export_target, export, export_to
from segmax.encoders.loading import load_encoder
from segmax.encoders.model_files import is_export
from segmax.encoders.network import Network, Trim
from segmax.encoders.transformer import TransformerEncoder
from segmax.vectors.csr import Csr
from segmax.vectors.documents import Document

_LOG = logging.getLogger("segmax.encoders")
#: Texts that are looked at before the choice; with fewer than these, an export takes longer than it saves.
NUM_FIRST = 512
_NUM_COMPARED = 24
_NEAR_ENOUGH = 0.99
#: What vectors are compared on where the caller has no texts at hand.
_SENTENCES = (
    "A waveguide of copper guides microwaves with little loss.",
    "The cat sleeps most of the day and hunts at night.",
    "In 1957 the committee published its report on the noise of crystal diodes.",
    "how do vaccines train the immune system",
    "weather",
)


class Agreement(NamedTuple):
    """The cosines between the vectors that two ways of running a model give to the same texts."""

    mean: float
    minimum: float


class ExportReport(NamedTuple):
    """What `export_encoder` wrote, and how near it is to the model in float32.

    Examples
    --------
    >>> report = export_encoder("naver/splade-v3")  # doctest: +SKIP
    >>> report.folder, report.agreements["int8"].minimum  # doctest: +SKIP
    """

    folder: Path
    num_bytes: dict[str, int]  # of a file, by number type
    agreements: dict[str, Agreement]  # by number type


def export_encoder(
    name: str | os.PathLike[str],
    folder: str | os.PathLike[str] | None = None,
    *,
    texts: Iterable[str | Document] = _SENTENCES,
    overwrite: bool = False,
    **options: Any,
) -> ExportReport:
    """Export a model for ONNX Runtime and OpenVINO, in float32 and in 8 bits, and compare it with the model.

    Needs `pip install 'segmax[encoders,onnx]'`.

    Parameters
    ----------
    name
        A model, as for `load_encoder`.
    folder
        Where to write it. Such a folder is an encoder by itself: it needs neither the model nor torch. None: it is kept
        in the user's cache, where `dtype="int8"` and `backend="onnx"` find it for this model.
    texts
        What to compare vectors on: some of your own texts. At most 256 are read.
    overwrite
        Whether to export again what is there already, and to replace the export in `folder`.
    options
        Of the encoder.

    Examples
    --------
    >>> report = export_encoder("naver/splade-v3", "splade-onnx", texts=["a copper waveguide"])  # doctest: +SKIP
    >>> report.agreements["int8"].minimum > 0.99  # doctest: +SKIP
    True
    """
    if isinstance(name, (str, os.PathLike)) and is_export(Path(name)):
        raise ConfigError(
            option="name", expected="a model", got=f"'{os.fspath(name)}', which is an export", hint="copy that folder"
        )
    target = None if folder is None else Path(folder).absolute()
    if target is not None:
        check_export_target(target, overwrite=overwrite)  # before the model is loaded
    encoder = load_encoder(name, dtype="float32", backend="torch", device="cpu", **options)
    if not isinstance(encoder, TransformerEncoder):
        raise ConfigError(option="name", expected="a model", got=repr(encoder))
    if target is None:
        target = export(encoder, again=overwrite)
    else:
        export_to(encoder, target, overwrite=overwrite)
    sample = [text if isinstance(text, Document) else Document("", "", text) for text in itertools.islice(texts, 256)]
    if not sample:
        raise InputError(option="texts", expected="at least one text", got="none")
    made = {dtype: opened(target, encoder, backend="onnx", dtype=dtype) for dtype in ("float32", "int8")}
    return ExportReport(
        target,
        {dtype: (target / FILES[dtype]).stat().st_size for dtype in made},
        {dtype: agreement(encoder, exported, sample, len(sample)) for dtype, exported in made.items()},
    )


def choose_for(encoder: TransformerEncoder, first: Sequence[Document]) -> None:
    """Choose how a model computes, by a sample of the texts that it will encode; log the outcome in one line.

    Parameters
    ----------
    encoder
        What will encode the texts. Nothing changes if its `dtype` or `backend` was chosen by the caller, or if it runs
        on a GPU.
    first
        The first `NUM_FIRST` texts, or all if there are fewer.
    """
    why = ""
    if encoder.is_open and first:
        try:
            why = _chosen(encoder, first)
        except MissingPackageError as error:
            why = f"; for int8, which is several times as fast: {error.hint}"
        except SegmaxError as error:
            why = f"; no int8, because {error}"
        encoder.has_tried_int8 = bool(why)
    _LOG.info("%s: %s on %s, by %s%s", encoder.name, encoder.dtype, encoder.device, encoder.backend, why)


def _chosen(encoder: TransformerEncoder, first: Sequence[Document]) -> str:
    """Let the encoder compute in 8 bits if that pays and is near enough; return what there is to say about it."""
    if importlib.util.find_spec("onnxruntime") is None:
        return "; pip install 'segmax[onnx]' for int8, which is several times as fast"
    folder = find_export(encoder.name, type(encoder).__name__)
    if folder is None:
        if len(first) < NUM_FIRST:
            return ""
        folder = export(encoder)
    exported = opened(folder, encoder, backend="onnx", dtype="int8")
    found = agreement(encoder, exported, first)
    said = f"cosine to float32 at least {found.minimum:.4f} on {min(_NUM_COMPARED, len(first))} of the texts"
    if found.minimum < _NEAR_ENOUGH:
        return f"; int8 is not near enough: {said}"
    encoder.use(exported, backend="onnx", dtype="int8")
    return f"; {said}; dtype 'float32' is exact"


def agreement(
    encoder: TransformerEncoder, exported: Exported, docs: Sequence[Document], count: int = _NUM_COMPARED
) -> Agreement:
    """Compare an exported model with the one that an encoder runs, on some of the documents."""
    places = np.unique(np.linspace(0, len(docs) - 1, min(count, len(docs))).astype(int))
    texts = [encoder._text(docs[place]) for place in places]
    expected, found = (_rows(network, texts) for network in (encoder._network, exported.network))
    return agreement_of(expected, found)


def agreement_of(expected: Csr, found: Csr) -> Agreement:
    """Return the cosines between the rows of two matrices; texts without weights in both agree."""
    cosines = []
    for row in range(expected.num_rows):
        first, second = (_dense(rows, row) for rows in (expected, found))
        lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
        same = not first.any() and not second.any()
        cosines.append(float(first @ second) / lengths if lengths else float(same))
    return Agreement(float(np.mean(cosines)), float(np.min(cosines)))


def _rows(network: Network, texts: list[str]) -> Csr:
    return network.run(network.prepare(texts, queries=False), queries=False, pooling=(), trim=Trim()).rows


def _dense(rows: Csr, row: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    begin, end = rows.indptr[row], rows.indptr[row + 1]
    dense = np.zeros(rows.num_columns)
    dense[rows.indices[begin:end]] = rows.values[begin:end]
    return dense
