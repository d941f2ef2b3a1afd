"""Models in torch: batches of similar length, head and maximum over tokens in one step, rows made on the device.

The sentence-transformers library computes the same, with more memory and time; tests compare both.
"""

from __future__ import annotations

import abc
import contextlib
import copy
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from segmax.base.errors import SegmaxError
from segmax.encoders.network import Encoded, TokenNetwork, Trim, in_order, trimmed
from segmax.encoders.pooling import pooled
from segmax.encoders.word_pieces import Pieces, WordPieces
from segmax.vectors.csr import Csr

#: Word pieces that go through the model together, with padding: enough to keep the device busy.
_CPU_TOKENS = 4096
_GPU_TOKENS = 131_072
#: Texts that are sorted by length together. Texts of one length are then next to each other, and padding is rare.
_CPU_WINDOW = 1024
_GPU_WINDOW = 16_384
#: Logits that exist at once: word pieces of a batch × columns of a slice of the head.
_CPU_LOGITS = 1 << 24
_GPU_LOGITS = 1 << 29
#: Vectors shorter than this are too near to the noise of half precision; those of passages have lengths of 3 to 7.
_WEAK = {"float32": 0.0, "float16": 0.5, "bfloat16": 3.0}


class Forward(NamedTuple):
    """The result of a forward pass, as torch tensors."""

    weights: Any  # texts × vocabulary
    hidden: Any  # texts × tokens × dimensions: the last hidden states; None where they are not pooled
    mask: Any  # texts × tokens: 0 where there is padding


class TorchNetwork(TokenNetwork):
    """A model in torch, on one device or a copy on each of several.

    Parameters
    ----------
    torch
        The library.
    model
        The module to run, in float32 on the CPU.
    documents, queries
        How texts become word pieces.
    devices
        Where it runs.
    dtype
        What it computes in.
    padding
        The number of the word piece that fills short texts up.
    batch_size
        The most texts in a batch; None: as many as have the word pieces that suit the device.
    """

    def __init__(
        self,
        torch: Any,
        model: Any,
        documents: WordPieces,
        queries: WordPieces,
        *,
        devices: Sequence[str],
        dtype: str,
        padding: int,
        batch_size: int | None = None,
    ) -> None:
        super().__init__(documents, queries)
        self._torch = torch
        self._padding = padding
        self._batch_size = batch_size
        self._on_gpu = not devices[0].startswith("cpu")
        self._batch_tokens = _GPU_TOKENS if self._on_gpu else _CPU_TOKENS
        self.window = 8 * batch_size if batch_size is not None else _GPU_WINDOW if self._on_gpu else _CPU_WINDOW
        self._copies: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        for number, device in enumerate(devices):
            own = model if number == 0 and dtype == "float32" else copy.deepcopy(model)
            self._copies.put((device, own.to(device=device, dtype=getattr(torch, dtype))))
        self._num_copies = len(devices)
        self._weak = _WEAK[dtype]
        self._whole = {"": model}  # in float32, by device, once it is needed

    @abc.abstractmethod
    def forward(self, model: Any, tokens: Any, mask: Any, *, queries: bool, wants_hidden: bool) -> Forward:
        """Run the model on padded word pieces."""

    def run(self, prepared: list[Pieces], *, queries: bool, pooling: Sequence[str], trim: Trim) -> Encoded:
        """Encode texts, the longest first, and put the rows back in order."""
        lengths = np.array([len(pieces) for pieces in prepared], np.int64)
        order = np.argsort(-lengths, kind="stable")
        batches = [order[first:last] for first, last in self._batches(lengths[order])]

        def encode(batch: Any) -> list[Encoded]:
            with self._copy() as (device, model):
                return self._encode(model, device, [prepared[i] for i in batch], queries, pooling, trim)

        if self._num_copies == 1:
            return in_order([part for batch in batches for part in encode(batch)], order)
        with ThreadPoolExecutor(self._num_copies) as pool:
            return in_order([part for parts in pool.map(encode, batches) for part in parts], order)

    @contextlib.contextmanager
    def _copy(self) -> Iterator[tuple[str, Any]]:
        """Take a copy of the model that is free."""
        taken = self._copies.get()
        try:
            yield taken
        finally:
            self._copies.put(taken)

    def _batches(self, lengths: Any) -> Iterator[tuple[int, int]]:
        """Cut texts, sorted by falling length, into batches."""
        first = 0
        while first < len(lengths):
            size = max(1, self._batch_tokens // max(1, int(lengths[first])))
            size = size if self._batch_size is None else min(size, self._batch_size)
            yield first, min(first + size, len(lengths))
            first += size

    def _encode(
        self, model: Any, device: str, texts: list[Pieces], queries: bool, pooling: Sequence[str], trim: Trim
    ) -> list[Encoded]:
        """Encode a batch, or both of its halves where the device has not enough memory for it."""
        torch = self._torch
        try:
            with torch.inference_mode():
                tokens, mask = self._padded(texts, device)
                out = self.forward(model, tokens, mask, queries=queries, wants_hidden=bool(pooling))
                weights = self._without_noise(out.weights.float(), device, tokens, mask, queries)
                return [Encoded(self._rows(weights, trim), pooled(out.hidden, out.mask, pooling))]
        except torch.OutOfMemoryError as error:
            if len(texts) == 1:
                msg = f"{device} has not enough memory for a text of {len(texts[0]):,} word pieces"
                raise SegmaxError(msg, hint="pass a smaller {max_length}, or another {device}") from error
        torch.cuda.empty_cache()  # outside of the handler, which keeps the tensors of the failed pass alive
        half = len(texts) // 2
        return [
            part
            for some in (texts[:half], texts[half:])
            for part in self._encode(model, device, some, queries, pooling, trim)
        ]

    def _without_noise(self, weights: Any, device: str, tokens: Any, mask: Any, queries: bool) -> Any:
        """Compute short vectors again in float32, if the model runs in half precision.

        They are those of texts in which it finds next to nothing, such as empty ones and those in a script that it does
        not know. Rounding would leave little but noise of them.
        """
        if not self._weak:
            return weights
        weak = weights.norm(dim=1) < self._weak
        if bool(weak.any()):
            if device not in self._whole:
                self._whole[device] = copy.deepcopy(self._whole[""]).to(device)
            again = self.forward(self._whole[device], tokens[weak], mask[weak], queries=queries, wants_hidden=False)
            weights[weak] = again.weights
        return weights

    def _padded(self, texts: list[Pieces], device: str) -> tuple[Any, Any]:
        """Return a matrix of word pieces, and which of them are no padding."""
        longest = len(texts[0])
        tokens = np.full((len(texts), longest), self._padding, np.int64)
        for row, pieces in zip(tokens, texts, strict=True):
            row[: len(pieces)] = pieces
        lengths = np.array([len(pieces) for pieces in texts])
        mask = np.arange(longest) < lengths[:, None]
        made = self._torch.from_numpy(tokens), self._torch.from_numpy(mask.astype(np.int64))
        if self._on_gpu:
            made = tuple(tensor.pin_memory() for tensor in made)
        return made[0].to(device, non_blocking=True), made[1].to(device, non_blocking=True)

    def _rows(self, weights: Any, trim: Trim) -> Csr:
        """Return weights as sparse rows: chosen on the device, so that only what is kept leaves it."""
        kept = weights >= trim.min_weight if trim.min_weight > 0 else weights > 0
        if trim.top_n is not None and trim.top_n < weights.shape[1]:
            kept &= weights >= weights.topk(trim.top_n, dim=1).values[:, -1:]
        row, column = kept.nonzero(as_tuple=True)
        values = weights[row, column].cpu().numpy()
        counts = kept.sum(1).cpu().numpy()
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        return trimmed(Csr(indptr, column.cpu().numpy().astype(np.uint32), values, weights.shape[1]), trim)


class MaskedLanguageNetwork(TorchNetwork):
    """SPLADE and its like: log(1 + relu) of a masked language model's logits, the largest of all tokens.

    The largest logit is found before anything is added or applied that does not change the order: the bias of a column,
    relu and the logarithm. Logits are made for a slice of the columns at a time, so they never exist all at once.

    Parameters
    ----------
    model
        A masked language model of transformers. Its last layer is taken out of it.
    logs
        How often the logarithm is applied.
    skipped
        Word pieces whose logits do not count.
    """

    def __init__(
        self, torch: Any, model: Any, *texts: WordPieces, logs: int = 1, skipped: Sequence[int] = (), **options: Any
    ) -> None:
        self.headless = headless(torch, model)
        self.logs = logs
        self.skipped = tuple(skipped)
        super().__init__(torch, self.headless, *texts, **options)

    def forward(self, model: Any, tokens: Any, mask: Any, *, queries: bool, wants_hidden: bool) -> Forward:
        """Run the model on padded word pieces."""
        torch = self._torch
        padded = None if bool(mask.all()) else mask  # attention is faster without a mask
        states, hidden = model(tokens, padded, wants_hidden)
        read = mask.bool()
        for piece in self.skipped:
            read &= tokens != piece
        # Tokens that do not count become copies of one that does: the maximum stays, and logits need no mask.
        first = read.int().argmax(1)
        one = states[torch.arange(len(states), device=states.device), first].unsqueeze(1)
        states = torch.where(read.unsqueeze(-1), states, one)
        weights = model.largest(states, self._slice(tokens.numel()))
        for _ in range(self.logs):
            weights = torch.log1p(weights)
        return Forward(weights * read.any(1, keepdim=True), hidden, mask)

    def _slice(self, num_tokens: int) -> int:
        return max(256, (_GPU_LOGITS if self._on_gpu else _CPU_LOGITS) // max(1, num_tokens))


def headless(torch: Any, model: Any) -> Any:
    """Return a masked language model whose last layer was taken out, and is applied by `largest`."""

    class Headless(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            head = model.get_output_embeddings()
            self._place = next(name for name, module in model.named_modules() if module is head)
            self.columns = torch.nn.Parameter(head.weight.detach(), requires_grad=False)
            bias = torch.zeros(len(self.columns)) if head.bias is None else head.bias.detach()
            self.bias = torch.nn.Parameter(bias.float(), requires_grad=False)
            self.body = model
            self._head = [head]  # in a list, so that it is no part of this module
            model.set_submodule(self._place, torch.nn.Identity())

        def restore(self) -> None:
            """Put the last layer back."""
            self.body.set_submodule(self._place, self._head[0])

        def forward(self, tokens: Any, mask: Any, wants_hidden: bool) -> tuple[Any, Any]:
            out = self.body(input_ids=tokens, attention_mask=mask, output_hidden_states=wants_hidden)
            return out.logits, out.hidden_states[-1] if wants_hidden else None

        def largest(self, states: Any, size: int) -> Any:
            parts = [torch.nn.functional.linear(states, columns).amax(1) for columns in self.columns.split(size)]
            return torch.relu(torch.cat(parts, 1).float() + self.bias)

    return Headless()


def has_head(model: Any) -> bool:
    """Return whether a model ends in a plain linear layer, which `headless` can take out."""
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    return type(head).__name__ == "Linear" and any(module is head for module in model.modules())


class TokenWeightNetwork(TorchNetwork):
    """uniCOIL: a weight per token, in its own column; the largest in documents, the sum in queries.

    Parameters
    ----------
    num_columns
        Word pieces that the model knows.
    skipped
        Word pieces that get no weight.
    """

    def __init__(
        self, torch: Any, model: Any, *texts: WordPieces, num_columns: int, skipped: Sequence[int] = (), **options: Any
    ) -> None:
        super().__init__(torch, model, *texts, **options)
        self.model = model
        self.num_columns = num_columns
        self.skipped = tuple(skipped)

    def forward(self, model: Any, tokens: Any, mask: Any, *, queries: bool, wants_hidden: bool) -> Forward:
        """Run the model on padded word pieces."""
        torch = self._torch
        hidden = model["bert"](input_ids=tokens, attention_mask=mask).last_hidden_state
        weights = torch.relu(model["tok_proj"](hidden)).squeeze(-1).float() * mask
        for piece in self.skipped:
            weights = weights * (tokens != piece)
        rows = torch.zeros(len(tokens), self.num_columns, device=weights.device)
        rows.scatter_reduce_(1, tokens, weights, reduce="sum" if queries else "amax")
        return Forward(rows, hidden, mask)
