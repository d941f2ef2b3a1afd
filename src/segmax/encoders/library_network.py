"""Models run by sentence-transformers itself: whatever it can load, as it does it. The slow twin of `torch_network`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from segmax.base.checks import shown
from segmax.base.errors import ConfigError
from segmax.encoders.network import Encoded, Network, Trim, in_order, kept_weights
from segmax.encoders.pooling import pooled
from segmax.encoders.torch_network import Forward
from segmax.vectors.csr import Csr

_BATCH_SIZE = 32
_CHUNK_BATCHES = 8  # texts of so many batches are sorted by length, so that a batch has little padding
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # as encode_document looks for them


class LibraryNetwork(Network):
    """A SparseEncoder of sentence-transformers.

    Parameters
    ----------
    torch, library
        The libraries.
    model
        The `SparseEncoder`.
    name
        Of the model, for messages.
    batch_size
        Texts that go through the model together.
    pooling
        The poolings that will be asked for.
    is_ours
        Whether it may be changed. A model that the caller has loaded may not.
    """

    def __init__(
        self,
        torch: Any,
        library: Any,
        model: Any,
        name: str,
        *,
        batch_size: int | None,
        pooling: Sequence[str],
        is_ours: bool,
    ) -> None:
        self._torch = torch
        self._library = library
        self._model = model
        self._batch_size = batch_size or _BATCH_SIZE
        self.window = _CHUNK_BATCHES * self._batch_size
        self._hidden: Any = None
        if pooling:
            self._watch_hidden_states(name, pooling)
        if is_ours:
            self._speed_up_pooling()

    def run(self, prepared: list[str], *, queries: bool, pooling: Sequence[str], trim: Trim) -> Encoded:
        """Encode texts, the longest first, and put the rows back in order."""
        order = np.argsort([-len(text) for text in prepared], kind="stable")
        parts = []
        for first in range(0, len(order), self._batch_size):
            texts = [prepared[i] for i in order[first : first + self._batch_size]]
            with self._torch.inference_mode():
                if queries:
                    parts.append(Encoded(self._rows(self._forward_queries(texts), trim)))
                    continue
                out = self._forward_documents(texts)
                parts.append(Encoded(self._rows(out.weights, trim), pooled(out.hidden, out.mask, pooling)))
        return in_order(parts, order)

    def num_columns(self) -> int:
        """Return how many columns its vectors have."""
        with self._torch.inference_mode():
            return int(self._forward_queries(["a"]).shape[1])

    def _rows(self, weights: Any, trim: Trim) -> Csr:
        dense = weights.to_dense() if weights.is_sparse else weights
        return kept_weights(dense.float().cpu().numpy(), trim)

    def _forward_documents(self, texts: list[str]) -> Forward:
        model = self._model
        features = model.preprocess(
            texts, prompt=document_prompt(model.prompts, model.default_prompt_name), task="document"
        )
        features = {
            key: value.to(model.device) if isinstance(value, self._torch.Tensor) else value
            for key, value in features.items()
        }
        limit = {} if model.max_active_dims is None else {"max_active_dims": model.max_active_dims}
        out = model(features, task="document", **limit)
        weights = out["sentence_embedding"]
        if limit:
            weights = self._library.util.select_max_active_dims(weights, **limit)
        return Forward(weights, self._hidden, out.get("attention_mask"))

    def _forward_queries(self, texts: list[str]) -> Any:
        return self._model.encode_query(texts, batch_size=self._batch_size, show_progress_bar=False)

    def _watch_hidden_states(self, name: str, pooling: Sequence[str]) -> None:
        """Keep the hidden states of documents, so that no second forward pass is needed."""
        heads = transformers_of(self._model)
        if not heads:
            raise ConfigError(
                where=f"'{name}'",
                option="pooling",
                expected="empty, because the model has no transformer for documents",
                got=shown(tuple(pooling)),
            )

        def keep(_module: Any, _inputs: Any, output: Any) -> None:
            self._hidden = output[0]

        heads[0].auto_model.base_model.register_forward_hook(keep)

    def _speed_up_pooling(self) -> None:
        """Let SPLADE's pooling take the maximum first; tests compare it with the library's own."""
        for module in self._model.modules():
            if type(module).__name__ == "SpladePooling" and module.pooling_strategy == "max":
                module.forward = functools.partial(self._splade_pooling, module, module.forward)

    def _splade_pooling(self, module: Any, original: Callable[[Any], Any], features: dict[str, Any]) -> Any:
        if "cu_seq_lens_q" in features:  # texts one after the other, without padding, as some GPU kernels need them
            return original(features)
        logits, mask = features["token_embeddings"], features["attention_mask"]
        logits.masked_fill_(~mask.bool().unsqueeze(-1), 0.0)
        weights = self._torch.log1p(self._torch.relu(logits.amax(1)))
        twice = module.activation_function == "log1p_relu"  # which OpenSearch's models have
        return {**features, "sentence_embedding": self._torch.log1p(weights) if twice else weights}


def transformers_of(model: Any) -> list[Any]:
    """Return the modules of a SparseEncoder that run a transformer, those for documents first."""
    first = model[0]
    routes = getattr(first, "sub_modules", None)
    if routes is None:
        heads = [first]
    else:
        names = sorted(routes.keys(), key=lambda route: route != "document")
        heads = [routes[route][0] for route in names]
    return [head for head in heads if hasattr(head, "auto_model")]


def document_prompt(prompts: Mapping[str, str] | None, default: str | None) -> str:
    """Return what sentence-transformers puts before every document; `default` names the prompt of other texts."""
    known = prompts or {}
    return known.get(next((name for name in _DOCUMENT_PROMPTS if name in known), default or "")) or ""


def query_prompt(prompts: Mapping[str, str] | None, default: str | None) -> str:
    """Return what sentence-transformers puts before every query."""
    known = prompts or {}
    return known.get("query" if "query" in known else default or "") or ""
