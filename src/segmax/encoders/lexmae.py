"""LexMAE: a weight for every word piece of the vocabulary, from the head of a masked language model."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from segmax.base.checks import checked_bool, checked_int
from segmax.base.errors import InputError
from segmax.encoders.model_files import loading
from segmax.encoders.model_sizes import bounded, check_sizes
from segmax.encoders.packages import need_torch, quiet_loading
from segmax.encoders.transformer import LARGEST, Forward, TransformerEncoder, column_names, max_pooled
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
    device, dtype, batch_size, top_n, min_weight, pooling
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
        dtype: str = "float32",
        batch_size: int = 32,
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
            batch_size=batch_size,
            top_n=top_n,
            min_weight=min_weight,
            pooling=pooling,
        )
        self.title = checked_bool("title", title)
        self.max_length = checked_int("max_length", max_length, 2, LARGEST)
        self.query_length = checked_int("query_length", query_length, 2, LARGEST)
        transformers = need_torch("transformers", "LexMAE")
        with loading("LexMAE", self.name), quiet_loading():
            self._load(transformers, {"trust_remote_code": False, "local_files_only": self._local})

    def _load(self, transformers: Any, how: dict[str, bool]) -> None:
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
        self.max_length = min(self.max_length, model.config.max_position_embeddings)
        self.query_length = min(self.query_length, model.config.max_position_embeddings)
        self._model = model.to(device=self.device, dtype=getattr(self._torch, self.dtype)).eval()
        self._keeps_special = bool(getattr(model.config, "keep_special_tokens", False))
        self._columns = column_names(self._tokenizer.get_vocab(), model.config.vocab_size)
        self.encode_queries(["a"])  # fails now if parts do not fit, not in the middle of a collection

    @property
    def vocabulary(self) -> list[str]:
        """The word piece of every column."""
        return self._columns

    def options(self) -> dict[str, Any]:
        """Return the options that its vectors depend on."""
        lengths = {"max_length": self.max_length, "query_length": self.query_length}
        return {**super().options(), **lengths, "title": self.title}

    def _text(self, doc: Document) -> str:
        if not self.title or not doc.title:
            return doc.text
        return f"{doc.title}{self._tokenizer.sep_token}{doc.text}"

    def _forward_documents(self, texts: list[str]) -> Forward:
        return self._forward(texts, self.max_length)

    def _forward_queries(self, texts: list[str]) -> Any:
        return self._forward(texts, self.query_length).weights

    def _forward(self, texts: list[str], max_length: int) -> Forward:
        inputs = self._tokenizer(texts, padding=True, truncation=True, max_length=max_length, return_tensors="pt")
        tokens, mask = inputs["input_ids"].to(self.device), inputs["attention_mask"].to(self.device)
        out = self._model(input_ids=tokens, attention_mask=mask, output_hidden_states=bool(self.pooling))
        hidden = out.hidden_states[-1] if self.pooling else None
        read = mask
        if not self._keeps_special:
            read = mask * (tokens != self._tokenizer.cls_token_id) * (tokens != self._tokenizer.sep_token_id)
        return Forward(max_pooled(self._torch, out.logits, read), hidden, mask)
