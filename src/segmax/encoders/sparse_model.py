"""Any SparseEncoder of sentence-transformers: SPLADE, encoders whose queries need no inference, CSR."""

from __future__ import annotations

import functools
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from segmax.base.checks import checked_int, shown
from segmax.base.errors import ConfigError
from segmax.encoders.model_files import loading
from segmax.encoders.model_sizes import bounded, check_sizes
from segmax.encoders.packages import need_torch, quiet_loading
from segmax.encoders.query_table import QueryTable, table_of
from segmax.encoders.transformer import LARGEST, Forward, TransformerEncoder, column_names, max_pooled
from segmax.vectors.csr import Csr

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

_DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # as encode_document looks for them


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
    device, dtype, batch_size, top_n, min_weight, pooling
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
        dtype: str = "float32",
        batch_size: int = 32,
        max_length: int | None = None,
        top_n: int | None = None,
        min_weight: float = 0.0,
        pooling: str | Iterable[str] = (),
    ) -> None:
        self._is_given = is_sparse_encoder(name)
        if self._is_given:
            _check_kept(name, device=device, dtype=dtype, max_length=max_length)
            device, dtype = str(name.device), _dtype_of(name)
        super().__init__(
            "a loaded SparseEncoder" if self._is_given else name,
            device=device,
            dtype=dtype,
            batch_size=batch_size,
            top_n=top_n,
            min_weight=min_weight,
            pooling=pooling,
        )
        self.max_length = None if max_length is None else checked_int("max_length", max_length, 1, LARGEST)
        self._library = need_torch("sentence_transformers", "SparseModel")
        self._hidden: Any = None
        self._table: QueryTable | None = None
        if self._is_given:
            self._model = name.eval()
            self._set_up()
            return
        with loading("SparseModel", self.name), quiet_loading():
            check_sizes(self.name, "SparseModel")
            with bounded(self.name, "SparseModel"):
                self._model = self._loaded()
            self._speed_up_pooling()
            self._set_up()
            self._table = table_of(self.name, top_n=top_n, min_weight=min_weight, local=self._local)

    def _loaded(self) -> Any:
        dtype = getattr(self._torch, self.dtype)
        model = self._library.SparseEncoder(
            self.name,
            device=self.device,
            trust_remote_code=False,
            local_files_only=self._local,  # else it asks the hub about a folder
            # Given here, these win over what the files of the model ask for.
            model_kwargs={"dtype": dtype, "weights_only": True, "trust_remote_code": False},
            processor_kwargs={"trust_remote_code": False},
            config_kwargs={"trust_remote_code": False},
        )
        return model.to(dtype).eval()  # parts that are no transformer, too

    def _set_up(self) -> None:
        if self.max_length is not None:
            for part in self._transformers():
                part.max_seq_length = self.max_length
        self._watch_hidden_states()
        self._columns = self._name_columns()

    def to_dict(self) -> dict[str, Any]:
        """Return what an index records about it, as plain values."""
        # Where a loaded model comes from, and whether it was trained since, only its owner knows.
        return {**super().to_dict(), "model": None} if self._is_given else super().to_dict()

    def fingerprint(self) -> dict[str, Any]:
        """Return what its vectors depend on, as plain values."""
        return {**self.to_dict(), "files": [_fingerprint(self._model)]} if self._is_given else super().fingerprint()

    @property
    def vocabulary(self) -> list[str]:
        """The token of every column; a CSR model has no tokens, so its columns are named by number."""
        return self._columns

    def options(self) -> dict[str, Any]:
        """Return the options that its vectors depend on."""
        return {**super().options(), "max_length": self.max_length}

    # --- the parts of the model --------------------------------------------------------------------------------------

    def _transformers(self) -> list[Any]:
        """Return the modules that run a transformer, those for documents first."""
        first = self._model[0]
        routes = getattr(first, "sub_modules", None)
        if routes is None:
            heads = [first]
        else:
            names = sorted(routes.keys(), key=lambda route: route != "document")
            heads = [routes[route][0] for route in names]
        return [head for head in heads if hasattr(head, "auto_model")]

    def _watch_hidden_states(self) -> None:
        """Keep the hidden states of documents if they are pooled, so that no second forward pass is needed."""
        if not self.pooling:
            return
        transformers = self._transformers()
        if not transformers:
            raise ConfigError(
                where=f"'{self.name}'",
                option="pooling",
                expected="empty, because the model has no transformer for documents",
                got=shown(self.pooling),
            )

        def keep(_module: Any, _inputs: Any, output: Any) -> None:
            self._hidden = output[0]

        transformers[0].auto_model.base_model.register_forward_hook(keep)

    def _speed_up_pooling(self) -> None:
        """Let SPLADE's pooling take the maximum first; tests compare it with the library's own."""
        for module in self._model.modules():
            if type(module).__name__ == "SpladePooling" and module.pooling_strategy == "max":
                module.forward = functools.partial(self._splade_pooling, module, module.forward)

    def _splade_pooling(self, module: Any, original: Callable[[Any], Any], features: dict[str, Any]) -> Any:
        if "cu_seq_lens_q" in features:  # texts one after the other, without padding, as some GPU kernels need them
            return original(features)
        weights = max_pooled(self._torch, features["token_embeddings"], features["attention_mask"])
        twice = module.activation_function == "log1p_relu"  # which OpenSearch's models have
        return {**features, "sentence_embedding": self._torch.log1p(weights) if twice else weights}

    def _name_columns(self) -> list[str]:
        with self._torch.inference_mode():
            num_columns = int(self._forward_queries(["a"]).shape[1])
        is_csr = any(type(module).__name__ == "SparseAutoEncoder" for module in self._model.modules())
        return column_names({} if is_csr else self._model.tokenizer.get_vocab(), num_columns)

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        """Return the vectors of queries, a row each: by the model's table, where it has one."""
        return super().encode_queries(batch) if self._table is None else self._table.encode_queries(batch)

    def query_rows(self, batch: Sequence[str]) -> Csr:
        """Return what `encode_queries` returns, as a search takes it."""
        return super().query_rows(batch) if self._table is None else self._table.query_rows(batch)

    # --- running it --------------------------------------------------------------------------------------------------

    def _forward_documents(self, texts: list[str]) -> Forward:
        model = self._model
        prompts = model.prompts or {}
        named = next((name for name in _DOCUMENT_PROMPTS if name in prompts), model.default_prompt_name)
        features = model.preprocess(texts, prompt=prompts.get(named), task="document")
        features = {
            key: value.to(self.device) if isinstance(value, self._torch.Tensor) else value
            for key, value in features.items()
        }
        limit = {} if model.max_active_dims is None else {"max_active_dims": model.max_active_dims}
        out = model(features, task="document", **limit)
        weights = out["sentence_embedding"]
        if limit:
            weights = self._library.util.select_max_active_dims(weights, **limit)
        return Forward(weights, self._hidden, out.get("attention_mask"))

    def _forward_queries(self, texts: list[str]) -> Any:
        return self._model.encode_query(texts, batch_size=self.batch_size, show_progress_bar=False)


def is_sparse_encoder(value: object) -> bool:
    """Return whether this is a loaded `SparseEncoder` of sentence-transformers."""
    library = sys.modules.get("sentence_transformers")  # not imported: then nobody has loaded one
    kind = getattr(library, "SparseEncoder", None)
    return isinstance(kind, type) and isinstance(value, kind)


def _check_kept(model: Any, **options: Any) -> None:
    """Raise ConfigError if an option would change a model that the caller has loaded."""
    unchanged = {"device": None, "dtype": ("float32", _dtype_of(model)), "max_length": None}
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
