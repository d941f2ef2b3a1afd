"""What all encoders that run a transformer share: options, a network that runs the model, windows of texts."""

from __future__ import annotations

import abc
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segmax.base.checks import checked_choice, checked_int, checked_number
from segmax.base.errors import ConfigError
from segmax.encoders.base import Batches, Encoder, check_terms
from segmax.encoders.chunks import regrouped
from segmax.encoders.exported import BACKENDS, Exported, Side, can_run, check_kind
from segmax.encoders.exporting import open_exported
from segmax.encoders.model_files import find_model, is_export, stamps
from segmax.encoders.network import Network, Trim, no_rows
from segmax.encoders.pace import Pace
from segmax.encoders.packages import need_torch
from segmax.encoders.pooling import checked_poolings
from segmax.encoders.query_cache import QueryCache
from segmax.encoders.word_pieces import WordPieces
from segmax.vectors.csr import Csr
from segmax.vectors.documents import Document, VectorBatch
from segmax.vectors.rows import to_scipy

if TYPE_CHECKING:
    import scipy.sparse as sp

    from segmax.encoders.query_table import QueryTable
else:
    from segmax.base.optional import scipy_sparse as sp

DTYPES = ("float32", "float16", "bfloat16", "int8")
LARGEST = 2**31 - 1  # of options that libraries keep in 32 bits
_SMALL_BATCH = 8  # texts: fewer of them leave a device idle
_WINDOW_CHARACTERS = 1 << 26  # of texts that are sorted by length together


class TransformerEncoder(Encoder):
    """An encoder that runs a transformer.

    Parameters
    ----------
    name
        A folder, or a name on the hub; or the folder of an exported model, which "onnx" or "openvino" runs.
    device
        Where torch computes: "cpu", "cuda", or several separated by commas ("cuda:0,cuda:1"), each with a copy of the
        model. None: all GPUs, or the CPU if there is none.
    dtype
        What it computes in: "float32", "float16", "bfloat16", or "int8" (ONNX Runtime on a CPU). Weights are float32
        afterwards. None: "float16" on a GPU, "float32" on a CPU.
    backend
        What runs the model: "torch", or, on a CPU, "onnx" or "openvino", which run an exported model. None: ONNX
        Runtime for "int8", else torch.
    batch_size
        The most texts that go through the model together; None: as many as suit the device.
    top_n
        Keep so many of a text's largest weights; None: all.
    min_weight
        Drop smaller weights; those that are not above zero are always dropped.
    pooling
        Pool the tokens' last hidden states of documents, too: some of "cls", "mean" and "max".
    """

    _is_given = False  # whether the caller has loaded the model; then there is nothing to find
    _network: Network
    _query_network: Network
    _columns: list[str]
    _tokenizer: Any = None  # of transformers; None where an exported model runs
    _separator = ""
    has_tried_int8 = False  #: whether 8 bits were considered, and that was said

    def __init__(
        self,
        name: str | os.PathLike[str],
        *,
        device: str | None = None,
        dtype: str | None = None,
        backend: str | None = None,
        batch_size: int | None = None,
        top_n: int | None = None,
        min_weight: float = 0.0,
        pooling: str | Iterable[str] = (),
    ) -> None:
        self.name = os.fspath(name)
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(expected="a model as a folder or a name on the hub", got=f"{name!r}")
        self._chosen_dtype = None if dtype is None else checked_choice("dtype", dtype, DTYPES)
        self._is_exported = is_export(Path(self.name))
        self.backend = _checked_backend(backend, dtype, device, is_exported=self._is_exported)
        self.batch_size = None if batch_size is None else checked_int("batch_size", batch_size, 1)
        self.top_n = None if top_n is None else checked_int("top_n", top_n, 1, LARGEST)
        self.min_weight = checked_min_weight(min_weight)
        self.pooling = checked_poolings(pooling)
        self._query_cache = QueryCache()
        self.pace = Pace(self.name, self._faster)
        # Before torch, which takes seconds to import: a model that is not there is an error at once.
        self._local = self._is_given or find_model(self.name, type(self).__name__)
        if self._is_exported:
            check_kind(Path(self.name), type(self).__name__)
        self.device = device or "cpu"
        self.dtype = self._chosen_dtype or "float32"
        self._asked_device = device
        self._is_chosen = dtype is not None or backend is not None

    def _open(self) -> None:
        """Make the network: of an exported model if that was asked for, else with torch."""
        exported = None if self.backend == "torch" else open_exported(self)
        if exported is None:
            self._torch = need_torch("torch", type(self).__name__)
            self.device = self._asked_device or _all_devices(self._torch)
            self.dtype = self._chosen_dtype or ("float16" if self._on_gpu else "float32")
            self._load()
        else:
            self.use(exported, backend=self.backend, dtype=self.dtype)

    @property
    def is_open(self) -> bool:
        """Whether the caller has left open how the model computes, and it runs on a CPU."""
        return not (self._is_chosen or self._is_given or self._on_gpu)

    def use(self, exported: Exported, *, backend: str, dtype: str) -> None:
        """Run an exported model from now on."""
        self.backend, self.dtype = backend, dtype
        self._query_cache = QueryCache()  # what it remembers is of another network
        self._columns = exported.columns
        self._network = self._query_network = exported.network
        self._separator = exported.description.separator

    @property
    def _on_gpu(self) -> bool:
        return not self.device.startswith("cpu")

    @property
    def _devices(self) -> list[str]:
        return self.device.split(",")

    @abc.abstractmethod
    def _load(self) -> None:
        """Load the model with torch: set `_network` and `_columns`."""

    def encodes_all(self) -> bool:
        """Return whether our own network encodes documents and queries, so that the model can be exported."""
        return True

    @property
    def query_table(self) -> QueryTable | None:
        """The table that encodes queries, where the model has one."""
        return None

    # --- for exporting -----------------------------------------------------------------------------------------------

    def in_float32(self) -> TransformerEncoder:
        """Return an encoder of the same model that runs in torch, in float32, on the CPU."""
        return type(self)(self.name, device="cpu", dtype="float32", backend="torch")

    def asked_lengths(self) -> tuple[int | None, int | None]:
        """Return after how many word pieces documents and queries are cut; None: where the model does."""
        length: int | None = getattr(self, "max_length", None)
        return length, getattr(self, "query_length", length)

    def text_sides(self) -> tuple[Side, Side]:
        """Return how documents and queries become word pieces."""
        lengths = self.asked_lengths()
        return Side(lengths[0]), Side(lengths[1])

    def positions(self) -> int | None:
        """Return the most word pieces that the model can take."""
        return None

    def separator(self) -> str:
        """Return the word piece between a title and a text, where the model reads one."""
        return self._separator

    def tokenizer_json(self) -> str:
        """Return the tokenizer as tokenizer.json has it."""
        return str(self._tokenizer.backend_tokenizer.to_str())

    def _network_options(self) -> dict[str, Any]:
        """Return the options about devices and batches that every network in torch takes."""
        return {
            "devices": self._devices,
            "dtype": self.dtype,
            "padding": self._tokenizer.pad_token_id or 0,
            "batch_size": self.batch_size,
        }

    def _word_pieces(self) -> tuple[WordPieces, WordPieces]:
        """Return what cuts documents and queries into word pieces."""
        content = self.tokenizer_json()
        documents, queries = (WordPieces(content, side.max_length, side.prompt) for side in self.text_sides())
        return documents, queries

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, device={self.device!r}, dtype={self.dtype!r})"

    @property
    def vocabulary(self) -> list[str]:
        """The word piece of every column."""
        return self._columns

    def _text(self, doc: Document) -> str:
        """Return the text of a document as the model was trained to read it."""
        return doc.whole

    def options(self) -> dict[str, Any]:
        """Return the options that its vectors depend on; with the name they make the same encoder again."""
        return {
            "dtype": self.dtype,
            "backend": self.backend,
            "top_n": self.top_n,
            "min_weight": self.min_weight,
            "pooling": list(self.pooling),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return what an index records about it, as plain values."""
        folder = Path(self.name)
        name = str(folder.absolute()) if folder.is_dir() else self.name
        return {"encoder": type(self).__name__, "model": name, **self.options()}

    def fingerprint(self) -> dict[str, Any]:
        """Return what its vectors depend on, as plain values."""
        return {**self.to_dict(), "files": stamps(Path(self.name))}

    def for_terms(self, terms: Sequence[str]) -> Encoder:
        """Return this encoder; raise InputError if the terms are not its vocabulary."""
        check_terms(self, terms)
        return self

    def encode_documents(self, batches: Batches) -> Iterator[VectorBatch]:
        """Yield the vectors of documents; a batch of the result is a window, whose texts are sorted by length."""
        windows = regrouped(batches, self._network.window, _WINDOW_CHARACTERS)
        for docs, prepared in self._prepared(windows):
            self.pace.measure(len(docs), partial(self._encode_some, prepared))
            with self.pace.timed():
                found = self._network.run(prepared, queries=False, pooling=self.pooling, trim=self._trim)
            yield VectorBatch([doc.id for doc in docs], found.rows, found.dense)

    def _encode_some(self, prepared: Any, count: int) -> None:
        """Encode so many of the documents of a window, from all over it."""
        some = prepared[:: len(prepared) // count][:count]
        self._network.run(some, queries=False, pooling=self.pooling, trim=self._trim)

    def _faster(self) -> str | None:
        """Return what would make encoding faster and was not chosen; None where nothing is known to."""
        ways = []
        if self._on_gpu:
            ways += ["dtype 'float16'"] if self.dtype == "float32" else []
        elif self.dtype != "int8" and not self.has_tried_int8 and self._can_be_int8():
            installed = can_run("onnx", self.name, type(self).__name__)
            ways.append(f"{'' if installed else 'pip install segmax[onnx], and '}dtype 'int8', several times as fast")
        if self.backend == "torch" and self.batch_size is not None and self.batch_size < _SMALL_BATCH:
            ways.append("leave batch_size out")
        return "; ".join(ways) if ways and not self._is_given else None

    def _can_be_int8(self) -> bool:
        return self.encodes_all() if self.backend == "torch" else self.dtype == "float32"

    def _prepared(self, windows: Iterator[list[Document]]) -> Iterator[tuple[list[Document], Any]]:
        """Yield windows with what their texts become before the model, which a thread makes a window ahead."""

        def prepare(docs: list[Document]) -> Any:
            return self._network.prepare([self._text(doc) for doc in docs], queries=False)

        waiting: tuple[list[Document], Any] | None = None
        with ThreadPoolExecutor(1, thread_name_prefix="segmax") as pool:
            while True:
                following: tuple[list[Document], Any] | None = None
                failure: BaseException | None = None
                try:
                    docs = next(windows, None)
                    following = None if docs is None else (docs, pool.submit(prepare, docs))
                except BaseException as error:  # what was read before is encoded first
                    failure = error
                if waiting is not None:
                    yield waiting[0], waiting[1].result()
                if failure is not None:
                    raise failure
                if following is None:
                    return
                waiting = following

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        """Return the vectors of queries, a row each."""
        return to_scipy(self._query_vectors(batch))

    def query_rows(self, batch: Sequence[str]) -> Csr:
        """Return the vectors of queries as a search takes them; those of the last ones are remembered."""
        if self._is_given:  # its owner may go on training it
            return self._query_vectors(batch)
        return self._query_cache.rows(batch, self._query_vectors)

    def _query_vectors(self, batch: Sequence[str]) -> Csr:
        texts = list(batch)
        if not texts:
            return no_rows(len(self.vocabulary))
        prepared = self._query_network.prepare(texts, queries=True)
        return self._query_network.run(prepared, queries=True, pooling=(), trim=self._trim).rows

    @property
    def _trim(self) -> Trim:
        return Trim(self.min_weight, self.top_n)


def _checked_backend(backend: str | None, dtype: str | None, device: str | None, *, is_exported: bool) -> str:
    """Return the backend, or raise ConfigError if it does not go with the number type, the device or the model."""
    if is_exported:
        if backend == "torch":
            raise ConfigError(option="backend", expected="'onnx' or 'openvino' for an exported model", got="'torch'")
        if device not in (None, "cpu"):
            raise ConfigError(option="device", expected="'cpu' for an exported model", got=f"{device!r}")
        backend = backend or "onnx"
    if backend is None:
        return "onnx" if dtype == "int8" else "torch"
    checked_choice("backend", backend, BACKENDS)
    if backend != "torch" and device is not None and device != "cpu":
        raise ConfigError(option="backend", expected=f"'torch' for the device {device}", got=f"{backend!r}")
    allowed = {"torch": DTYPES[:3], "onnx": ("float32", "int8"), "openvino": ("float32", "bfloat16")}[backend]
    if dtype is not None and dtype not in allowed:
        names = " or ".join(repr(name) for name in allowed)
        raise ConfigError(option="dtype", expected=f"{names} for the backend {backend}", got=f"{dtype!r}")
    return backend


def _all_devices(torch: Any) -> str:
    """Return all GPUs, or the CPU."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return ",".join(f"cuda:{number}" for number in range(count)) if count > 1 else "cuda" if count else "cpu"


def checked_min_weight(value: object) -> float:
    """Return the smallest weight to keep, or raise ConfigError."""
    number = checked_number("min_weight", value)
    if not math.isfinite(number):
        raise ConfigError(option="min_weight", expected="finite", got=f"{value!r}")
    return number
