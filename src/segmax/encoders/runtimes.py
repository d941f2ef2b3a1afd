"""Exported models on a CPU: one text at a time, so that there is no padding, and no text depends on its neighbors."""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError
from segmax.base.optional import need
from segmax.base.system import num_cores
from segmax.encoders.network import Encoded, TokenNetwork, Trim, kept_weights
from segmax.encoders.word_pieces import Pieces, WordPieces
from segmax.vectors.rows import join_rows

Array = NDArray[np.float32]


class Runtime(abc.ABC):
    """A library that runs an exported model; several threads may call it at once."""

    @abc.abstractmethod
    def __call__(self, pieces: Pieces, *, wants_hidden: bool) -> tuple[Array, Array | None]:
        """Return the weights of a text, and the last hidden states of its tokens where they are wanted."""


class OnnxRuntime(Runtime):
    """ONNX Runtime."""

    def __init__(self, file: Path) -> None:
        library = need("onnxruntime", "the backend 'onnx'", "onnx")
        options = library.SessionOptions()
        # A thread per text is faster than several threads for one: a text is too little work to share.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = library.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    def __call__(self, pieces: Pieces, *, wants_hidden: bool) -> tuple[Array, Array | None]:
        """Return the weights of a text, and perhaps its hidden states."""
        names = ["weights", "hidden"] if wants_hidden else ["weights"]
        found = self._session.run(names, {"tokens": pieces[None]})
        return found[0][0], found[1][0] if wants_hidden else None


class OpenVino(Runtime):
    """OpenVINO, in float32 or bfloat16."""

    def __init__(self, file: Path, dtype: str) -> None:
        library = need("openvino", "the backend 'openvino'", "openvino")
        precision = {"float32": "f32", "bfloat16": "bf16"}[dtype]
        settings = {
            "INFERENCE_PRECISION_HINT": precision,
            "INFERENCE_NUM_THREADS": num_cores(),
            "NUM_STREAMS": num_cores(),
        }
        self._model = library.Core().compile_model(str(file), "CPU", settings)

    def __call__(self, pieces: Pieces, *, wants_hidden: bool) -> tuple[Array, Array | None]:
        """Return the weights of a text, and perhaps its hidden states."""
        found = self._model.create_infer_request().infer({"tokens": pieces[None]})
        return found["weights"][0].copy(), found["hidden"][0].copy() if wants_hidden else None


class _Once:
    """Makes a runtime when it is first needed, by whichever thread comes first."""

    def __init__(self, make: Callable[[], Runtime]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: Runtime | None = None

    def __call__(self) -> Runtime:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


class ExportedNetwork(TokenNetwork):
    """An exported model.

    Parameters
    ----------
    runtime
        What runs it.
    documents, queries
        How texts become word pieces.
    num_columns
        Word pieces that the model knows.
    of_tokens
        Whether it gives weights to the tokens of a text, as uniCOIL does; else to all columns.
    careful
        Opens the same model in float32.
    weak
        Vectors shorter than this are computed again in float32: of texts in which the model finds next to nothing, such
        as empty ones and those in a script that it does not know, 8 bits would leave little but noise.
    """

    window = 256  # nothing is sorted, so a window is only what is read ahead

    def __init__(
        self,
        runtime: Runtime,
        documents: WordPieces,
        queries: WordPieces,
        num_columns: int,
        *,
        of_tokens: bool,
        careful: Callable[[], Runtime] | None = None,
        weak: float = 0.0,
    ) -> None:
        super().__init__(documents, queries)
        self._runtime = runtime
        self._careful = None if careful is None else _Once(careful)
        self._weak = weak
        self._num_columns = num_columns
        self._of_tokens = of_tokens

    def run(self, prepared: list[Pieces], *, queries: bool, pooling: Sequence[str], trim: Trim) -> Encoded:
        """Encode texts, a thread per core."""

        def encode(pieces: Pieces) -> Encoded:
            weights, hidden = self._runtime(pieces, wants_hidden=bool(pooling))
            if self._careful is not None and float(np.linalg.norm(weights)) < self._weak:
                weights, hidden = self._careful()(pieces, wants_hidden=bool(pooling))
            if weights.shape != (len(pieces) if self._of_tokens else self._num_columns,):
                raise InputError(
                    where="the exported model",
                    expected=f"{self._num_columns} weights of a text",
                    got=f"an array of shape {weights.shape}",
                    hint="export it again",
                )
            if self._of_tokens:
                weights = _by_column(pieces, weights, self._num_columns, add=queries)
            return Encoded(kept_weights(weights[None], trim), _pooled(hidden, pooling))

        if len(prepared) == 1:
            return encode(prepared[0])
        with ThreadPoolExecutor(num_cores(), thread_name_prefix="segmax") as pool:
            parts = list(pool.map(encode, prepared))
        rows = join_rows([part.rows for part in parts], self._num_columns)
        return Encoded(rows, {name: np.concatenate([part.dense[name] for part in parts]) for name in pooling})


def _by_column(pieces: Pieces, weights: Array, num_columns: int, *, add: bool) -> Array:
    """Return the sum, or the largest, of the weights of each word piece."""
    row = np.zeros(num_columns, np.float32)
    (np.add if add else np.maximum).at(row, pieces, weights)
    return row


def _pooled(hidden: Any, names: Sequence[str]) -> dict[str, Array]:
    """Pool the hidden states of one text."""
    ways = {
        "cls": lambda: hidden[:1],
        "mean": lambda: hidden.mean(0, keepdims=True),
        "max": lambda: hidden.max(0, keepdims=True),
    }
    return {name: ways[name]() for name in names}
