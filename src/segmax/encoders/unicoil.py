"""uniCOIL: a weight per token of the text."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from segmax.base.checks import checked_int
from segmax.base.errors import ConfigError, InputError
from segmax.encoders.model_files import find_model, loading, read_pickled
from segmax.encoders.model_sizes import sizes_differ
from segmax.encoders.network import column_names
from segmax.encoders.packages import need_torch
from segmax.encoders.torch_network import TokenWeightNetwork
from segmax.encoders.transformer import LARGEST, TransformerEncoder

_PREFIX = "coil_encoder."  # of all weights in the published checkpoints
_WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
_UNUSED = ("bert.pooler.", "bert.embeddings.position_ids")  # in checkpoints of some versions; nothing uses them


class UniCOIL(TransformerEncoder):
    """uniCOIL in the layout of castorini's checkpoints: BERT, and a linear layer that gives every token one weight.

    A token that is in a document several times gets its largest weight, in a query the sum: COIL adds up, over the
    tokens of the query, the best match in the document. `[CLS]` and padding get none; `[SEP]` does, as in Pyserini.
    Weights are as the model gives them: Pyserini's integers are these × 256 / 5, rounded.

    Parameters
    ----------
    name
        A folder, or a name on the hub such as "castorini/unicoil-noexp-msmarco-passage".
    max_length, query_length
        Cut documents and queries after so many word pieces, and at the latest where the positions of the model end.
    tokenizer
        Where the tokenizer is; None: with the model.
    device, dtype, backend, batch_size, top_n, min_weight, pooling
        As in `TransformerEncoder`.

    Examples
    --------
    >>> encoder = UniCOIL("castorini/unicoil-noexp-msmarco-passage")  # doctest: +SKIP
    >>> index = segmax.from_texts("corpus.jsonl", encoder=encoder)  # doctest: +SKIP
    """

    def __init__(
        self,
        name: str | os.PathLike[str],
        *,
        device: str | None = None,
        dtype: str | None = None,
        backend: str | None = None,
        batch_size: int | None = None,
        max_length: int = 512,
        query_length: int = 128,
        tokenizer: str | os.PathLike[str] | None = None,
        top_n: int | None = None,
        min_weight: float = 0.0,
        pooling: str | Iterable[str] = (),
    ) -> None:
        super().__init__(
            name,
            device=device,
            dtype=dtype,
            backend=backend,
            batch_size=batch_size,
            top_n=top_n,
            min_weight=min_weight,
            pooling=pooling,
        )
        self.max_length = checked_int("max_length", max_length, 2, LARGEST)
        self.query_length = checked_int("query_length", query_length, 2, LARGEST)
        self.tokenizer = None if tokenizer is None else os.fspath(tokenizer)
        if self.backend != "torch" and self.tokenizer is not None:
            raise ConfigError(
                option="tokenizer", expected=f"left out for the backend {self.backend}", got=f"{self.tokenizer!r}"
            )
        self._open()

    def _load(self) -> None:
        local = self._local
        local_tokenizer = local if self.tokenizer is None else find_model(self.tokenizer, "UniCOIL's tokenizer")
        transformers = need_torch("transformers", "UniCOIL")
        with loading("UniCOIL", self.name):
            config = transformers.BertConfig.from_pretrained(self.name, trust_remote_code=False, local_files_only=local)
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(
                self.tokenizer or self.name, trust_remote_code=False, local_files_only=local_tokenizer
            )
            state = _read_weights(transformers, self.name, local)
            self._positions = int(config.max_position_embeddings)
            self.max_length = min(self.max_length, self._positions)
            self.query_length = min(self.query_length, self._positions)
            model = self._loaded(state, transformers, config)  # which compares the sizes that config.json claims
            self._columns = column_names(self._tokenizer.get_vocab(), config.vocab_size)
            self._network = self._query_network = TokenWeightNetwork(
                self._torch,
                model,
                *self._word_pieces(),
                num_columns=config.vocab_size,
                skipped=(self._tokenizer.cls_token_id,),
                **self._network_options(),
            )
            self.query_rows(["a"])  # fails now if parts do not fit, not in the middle of a collection

    def positions(self) -> int | None:
        """Return the most word pieces that the model can take."""
        return self._positions

    def options(self) -> dict[str, Any]:
        """Return the options that its vectors depend on."""
        lengths = {"max_length": self.max_length, "query_length": self.query_length}
        return {**super().options(), **lengths, "tokenizer": self.tokenizer}

    def _loaded(self, state: dict[str, Any], transformers: Any, config: Any) -> Any:
        """Return the two parts with their weights; every one must be there, and no other."""
        torch = self._torch
        state = {key.removeprefix(_PREFIX): value for key, value in state.items()}
        state = {key: value for key, value in state.items() if not key.startswith(_UNUSED)}
        with torch.device("meta"):  # sizes that config.json only claims take no memory
            self._check_state(_parts(torch, transformers, config).state_dict(), state)
        whole = _parts(torch, transformers, config)
        whole.load_state_dict(state)
        return whole.float().eval()

    def _check_state(self, expected: dict[str, Any], state: dict[str, Any]) -> None:
        for what, keys in (("lacks", expected.keys() - state.keys()), ("also has", state.keys() - expected.keys())):
            if keys:
                raise InputError(
                    where=f"UniCOIL: '{self.name}'",
                    expected="a checkpoint of BERT ('bert.*') and 'tok_proj'",
                    got=f"one that {what} {', '.join(sorted(keys)[:3])}",
                )
        for key, value in state.items():
            if value.shape != expected[key].shape:
                shapes = tuple(expected[key].shape), tuple(value.shape)
                raise sizes_differ(f"UniCOIL: '{self.name}'", key, *shapes)


def _parts(torch: Any, transformers: Any, config: Any) -> Any:
    bert = transformers.BertModel(config, add_pooling_layer=False)
    return torch.nn.ModuleDict({"bert": bert, "tok_proj": torch.nn.Linear(config.hidden_size, 1)})


def _read_weights(transformers: Any, name: str, local: bool) -> dict[str, Any]:
    """Return the weights of a checkpoint by name, from either kind of file."""
    for file in _WEIGHT_FILES:
        path = transformers.utils.cached_file(
            name, file, local_files_only=local, _raise_exceptions_for_missing_entries=False
        )
        if path is None:
            continue
        if Path(path).suffix == ".safetensors":
            return dict(need_torch("safetensors.torch", "UniCOIL").load_file(path))
        return read_pickled(Path(path), "UniCOIL")
    raise InputError(where=f"UniCOIL: '{name}'", expected=" or ".join(_WEIGHT_FILES), got="neither")
