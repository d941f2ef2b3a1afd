"""LexMAE: a weight for every word piece of the vocabulary, from the head of a masked language model."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from segmax.base.checks import checked_bool, checked_int
from segmax.base.errors import InputError
from segmax.encoders.model_files import loading
from segmax.encoders.model_sizes import bounded, check_sizes
from segmax.encoders.network import column_names
from segmax.encoders.packages import need_torch, quiet_loading
from segmax.encoders.torch_network import MaskedLanguageNetwork
from segmax.encoders.transformer import LARGEST, TransformerEncoder
from segmax.vectors.documents import Document


class LexMAE(TransformerEncoder):
    """LexMAE (Shen et al., ICLR 2023): log(1 + relu(logits)) of a masked language model, the largest of all tokens.

    Reads what the authors' code saves: the fine-tuned encoder, or the pre-trained one, whose decoder is left aside.
    Special tokens give no weights unless `keep_special_tokens` is set in config.json.

    Parameters
    ----------
    name
        A folder, or a name on the hub.
    title
        Read documents as "title[SEP]text", where they have a title; False: the text alone. As the model was trained.
    max_length, query_length
        Cut documents and queries after so many word pieces, and at the latest where the positions of the model end; the
        authors' are 144 and 32.
    device, dtype, backend, batch_size, top_n, min_weight, pooling
        As in `TransformerEncoder`.

    Examples
    --------
    >>> encoder = LexMAE("models/lexmae", device="cuda")  # doctest: +SKIP
    >>> index = segmax.from_texts("corpus.jsonl", encoder=encoder)  # doctest: +SKIP
    """

    def __init__(
        self,
        name: str | os.PathLike[str],
        *,
        title: bool = True,
        device: str | None = None,
        dtype: str | None = None,
        backend: str | None = None,
        batch_size: int | None = None,
        max_length: int = 144,
        query_length: int = 32,
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
        self.title = checked_bool("title", title)
        self.max_length = checked_int("max_length", max_length, 2, LARGEST)
        self.query_length = checked_int("query_length", query_length, 2, LARGEST)
        self._open()

    def _load(self) -> None:
        transformers = need_torch("transformers", "LexMAE")
        with loading("LexMAE", self.name), quiet_loading():
            self._load_parts(transformers, {"trust_remote_code": False, "local_files_only": self._local})

    def _load_parts(self, transformers: Any, how: dict[str, bool]) -> None:
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(self.name, **how)
        check_sizes(self.name, "LexMAE")
        with bounded(self.name, "LexMAE"):
            model, info = transformers.AutoModelForMaskedLM.from_pretrained(
                self.name, output_loading_info=True, weights_only=True, **how
            )
        missing = sorted(info["missing_keys"])
        if missing:
            raise InputError(
                where=f"LexMAE: '{self.name}'",
                expected="an encoder with the head of a masked language model",
                got=f"one that lacks {', '.join(missing[:3])}",
            )
        self._positions = int(model.config.max_position_embeddings)
        self.max_length = min(self.max_length, self._positions)
        self.query_length = min(self.query_length, self._positions)
        self._separator = str(self._tokenizer.sep_token)
        keeps_special = bool(getattr(model.config, "keep_special_tokens", False))
        special = (self._tokenizer.cls_token_id, self._tokenizer.sep_token_id)
        self._columns = column_names(self._tokenizer.get_vocab(), model.config.vocab_size)
        self._network = self._query_network = MaskedLanguageNetwork(
            self._torch,
            model.float().eval(),
            *self._word_pieces(),
            skipped=() if keeps_special else special,
            **self._network_options(),
        )
        self.query_rows(["a"])  # fails now if parts do not fit, not in the middle of a collection

    def positions(self) -> int | None:
        """Return the most word pieces that the model can take."""
        return self._positions

    def options(self) -> dict[str, Any]:
        """Return the options that its vectors depend on."""
        lengths = {"max_length": self.max_length, "query_length": self.query_length}
        return {**super().options(), **lengths, "title": self.title}

    def _text(self, doc: Document) -> str:
        if not self.title or not doc.title:
            return doc.text
        return f"{doc.title}{self._separator}{doc.text}"
