"""Any SparseEncoder of sentence-transformers: SPLADE, encoders whose queries need no inference, CSR."""

from __future__ import annotations

import importlib.util
import sys
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from segmax.base.checks import checked_int, shown
from segmax.base.errors import ConfigError
from segmax.encoders.exported import Side
from segmax.encoders.library_network import LibraryNetwork, transformers_of
from segmax.encoders.model_files import loading
from segmax.encoders.model_sizes import bounded, check_sizes
from segmax.encoders.network import Network, Trim, column_names
from segmax.encoders.packages import need_torch, quiet_loading
from segmax.encoders.query_table import QueryTable, table_of
from segmax.encoders.splade_parts import SpladeParts, load_parts, parts_of
from segmax.encoders.torch_network import MaskedLanguageNetwork
from segmax.encoders.transformer import LARGEST, TransformerEncoder
from segmax.vectors.csr import Csr

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

_SAMPLE = "a text that both ways of running a model must agree on"


class SparseModel(TransformerEncoder):
    """A SparseEncoder of sentence-transformers: by its name on the hub, from a folder, or loaded already.

    Prompts, and different ways for queries and documents (a Router), are used as the model has them. A folder of plain
    transformers with a masked language model becomes a SPLADE encoder, as sentence-transformers makes it.

    Parameters
    ----------
    name
        A folder, a name on the hub, or a `SparseEncoder` that you have loaded. segmax runs no code that comes with a
        model; a model that needs its own code has to be loaded by you.
    max_length
        Cut texts after so many word pieces; None: the model's own limit.
    device, dtype, backend, batch_size, top_n, min_weight, pooling
        As in `TransformerEncoder`. A loaded model keeps its own device, dtype and length.

    Examples
    --------
    >>> encoder = SparseModel("naver/splade-v3", top_n=256)  # doctest: +SKIP
    >>> index = segmax.from_texts("corpus.jsonl", encoder=encoder)  # doctest: +SKIP
    """

    def __init__(
        self,
        name: Any,
        *,
        device: str | None = None,
        dtype: str | None = None,
        backend: str | None = None,
        batch_size: int | None = None,
        max_length: int | None = None,
        top_n: int | None = None,
        min_weight: float = 0.0,
        pooling: str | Iterable[str] = (),
    ) -> None:
        self._is_given = is_sparse_encoder(name)
        if self._is_given:
            _check_kept(name, device=device, dtype=dtype, backend=backend, max_length=max_length)
            device, dtype, backend = str(name.device), _dtype_of(name), "torch"
        super().__init__(
            "a loaded SparseEncoder" if self._is_given else name,
            device=device,
            dtype=dtype,
            backend=backend,
            batch_size=batch_size,
            top_n=top_n,
            min_weight=min_weight,
            pooling=pooling,
        )
        self.max_length = None if max_length is None else checked_int("max_length", max_length, 1, LARGEST)
        self._model: Any = name.eval() if self._is_given else None
        self._parts: SpladeParts | None = None
        self._open()
        self._table: QueryTable | None = None
        if not self._is_given:
            with loading("SparseModel", self.name):
                self._table = table_of(self.name, top_n=top_n, min_weight=min_weight, local=self._local)

    def _load(self) -> None:
        if self._is_given:
            self._library = need_torch("sentence_transformers", "SparseModel")
            self._set_up()
            return
        with loading("SparseModel", self.name), quiet_loading():
            is_alone = importlib.util.find_spec("sentence_transformers") is None
            if not is_alone:
                self._library = need_torch("sentence_transformers", "SparseModel")
            check_sizes(self.name, "SparseModel")
            with bounded(self.name, "SparseModel"):
                parts = load_parts(self.name, local=self._local) if is_alone else None
                self._model = None if is_alone else self._loaded()
            if parts is None:
                self._set_up()
            else:
                self._set_up_parts(parts)

    def _loaded(self) -> Any:
        dtype = self._torch.float32  # our own network makes copies in other types, and the library gets its own
        model = self._library.SparseEncoder(
            self.name,
            device="cpu",
            trust_remote_code=False,
            local_files_only=self._local,  # else it asks the hub about a folder
            # Given here, these win over what the files of the model ask for.
            model_kwargs={"dtype": dtype, "weights_only": True, "trust_remote_code": False},
            processor_kwargs={"trust_remote_code": False},
            config_kwargs={"trust_remote_code": False},
        )
        return model.to(dtype).eval()  # parts that are no transformer, too

    def _set_up(self) -> None:
        """Choose the network: our own for plain SPLADE, the library for everything else."""
        if self.max_length is not None:
            for part in transformers_of(self._model):
                part.max_seq_length = self.max_length
        library = LibraryNetwork(
            self._torch,
            self._library,
            self._model,
            self.name,
            batch_size=self.batch_size,
            pooling=self.pooling,
            is_ours=not self._is_given,
        )
        num_columns = library.num_columns()
        is_csr = any(type(module).__name__ == "SparseAutoEncoder" for module in self._model.modules())
        self._columns = column_names({} if is_csr else self._model.tokenizer.get_vocab(), num_columns)
        self._network = self._query_network = library
        parts = None if self._is_given else parts_of(self._model)
        if parts is not None:
            self._set_up_parts(parts, library)
        if library in (self._network, self._query_network) and not self._is_given:
            self._model.to(device=self._devices[0], dtype=getattr(self._torch, self.dtype))

    def _set_up_parts(self, parts: SpladeParts, library: LibraryNetwork | None = None) -> None:
        """Run plain SPLADE by our own network, if it gives what the library gives."""
        self._parts = parts
        expected = None if library is None else _of_sample(library)
        self._tokenizer = parts.tokenizer
        network = MaskedLanguageNetwork(
            self._torch,
            parts.model.float().eval(),
            *self._word_pieces(),
            logs=parts.logs,
            **self._network_options(),
        )
        found = _of_sample(network)
        if expected is not None and not _agree(expected, found):  # a model that does more to its logits than we know
            network.headless.restore()
            self._parts = None
            return
        self._network = network
        self._columns = column_names(parts.tokenizer.get_vocab(), len(found))
        if parts.encodes_queries:
            self._query_network = network

    def text_sides(self) -> tuple[Side, Side]:
        """Return how documents and queries become word pieces."""
        parts = self._parts
        assert parts is not None
        length = parts.max_length if self.max_length is None else self.max_length
        return Side(length, parts.document_prompt), Side(length, parts.query_prompt)

    def positions(self) -> int | None:
        """Return the most word pieces that the model can take."""
        assert self._parts is not None
        found = getattr(self._parts.model.config, "max_position_embeddings", None)
        return found if isinstance(found, int) and found > 0 else None

    def encodes_all(self) -> bool:
        """Return whether our own network encodes documents, and queries where no table does."""
        return self._parts is not None and (self._parts.encodes_queries or self._table is not None)

    @property
    def query_table(self) -> QueryTable | None:
        """The table that encodes queries, where the model has one."""
        return self._table

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        """Return the vectors of queries, a row each: by the model's table, where it has one."""
        return super().encode_queries(batch) if self._table is None else self._table.encode_queries(batch)

    def query_rows(self, batch: Sequence[str]) -> Csr:
        """Return what `encode_queries` returns, as a search takes it."""
        return super().query_rows(batch) if self._table is None else self._table.query_rows(batch)

    def to_dict(self) -> dict[str, Any]:
        """Return what an index records about it, as plain values."""
        # Where a loaded model comes from, and whether it was trained since, only its owner knows.
        return {**super().to_dict(), "model": None} if self._is_given else super().to_dict()

    def fingerprint(self) -> dict[str, Any]:
        """Return what its vectors depend on, as plain values."""
        return {**self.to_dict(), "files": [_fingerprint(self._model)]} if self._is_given else super().fingerprint()

    def options(self) -> dict[str, Any]:
        """Return the options that its vectors depend on."""
        return {**super().options(), "max_length": self.max_length}


def _of_sample(network: Network) -> np.ndarray[Any, Any]:
    """Return the weights of a sample, as a dense vector."""
    prepared = network.prepare([_SAMPLE], queries=False)
    rows = network.run(prepared, queries=False, pooling=(), trim=Trim()).rows
    dense = np.zeros(rows.num_columns)
    dense[rows.indices] = rows.values
    return dense


def _agree(expected: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> bool:
    """Return whether two vectors are the same but for rounding, which takes more in half precision."""
    if expected.shape != found.shape:
        return False
    lengths = float(np.linalg.norm(expected) * np.linalg.norm(found))
    return lengths == 0 or float(expected @ found) >= 0.998 * lengths


def is_sparse_encoder(value: object) -> bool:
    """Return whether this is a loaded `SparseEncoder` of sentence-transformers."""
    library = sys.modules.get("sentence_transformers")  # not imported: then nobody has loaded one
    kind = getattr(library, "SparseEncoder", None)
    return isinstance(kind, type) and isinstance(value, kind)


def _check_kept(model: Any, **options: Any) -> None:
    """Raise ConfigError if an option would change a model that the caller has loaded."""
    unchanged = {"device": None, "dtype": (_dtype_of(model),), "backend": ("torch",), "max_length": None}
    for name, value in options.items():
        if value is not None and value not in (unchanged[name] or ()):
            raise ConfigError(
                option=name,
                expected="left out for a SparseEncoder that you have loaded",
                got=shown(value),
                hint="set it on the model",
            )


def _dtype_of(model: Any) -> str:
    first = next(model.parameters(), None)
    return "float32" if first is None else str(first.dtype).removeprefix("torch.")


def _fingerprint(model: Any) -> list[Any]:
    """Return what differs between two models: names and sizes of all weights, and a checksum of some of them."""
    checksum = 0
    state = model.state_dict()
    for name, value in state.items():
        some = value.reshape(-1)[:256].float().cpu().numpy().tobytes()
        checksum = zlib.crc32(some, zlib.crc32(f"{name} {tuple(value.shape)}".encode(), checksum))
    return ["weights", len(state), checksum]
