"""The sizes that a model's files promise, compared with the weights that are there before memory is taken for them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from segmax.base.errors import InputError
from segmax.encoders.model_files import files_below, model_folders, read_json, read_pickled, weight_shapes
from segmax.encoders.packages import need_torch

Shapes = dict[str, tuple[int, ...]]

#: A tensor may take so many bytes per byte of the files: weights of 4 bits, computed with in 32 bits.
_MOST_GROWTH = 8
_ALWAYS_ALLOWED = 1 << 26  # bytes; small tensors need no look at the files
#: Functions of torch that take memory for sizes that the caller names.
_MAKE_TENSORS = ("arange", "empty", "empty_like", "eye", "full", "ones", "rand", "randn", "zeros")

#: Options of these that the device without memory does not take.
_NOT_ON_META = frozenset({"device", "generator", "out", "pin_memory"})


def check_sizes(name: str, who: str) -> None:
    """Raise InputError if the shapes that follow from a config.json are not those of the weights beside it.

    The model is made on torch's "meta" device, which takes no memory. Names of weights that differ are left to the
    library, which knows how older checkpoints called them.
    """
    for folder in model_folders(name):
        for path in files_below(folder):
            if path.name == "config.json" and _has_plain_weights(read_json(path)):
                _compare(path, _stored_shapes(path.parent, who), who)


def _has_plain_weights(config: dict[str, Any]) -> bool:
    """Return whether weights are stored in the shapes that a transformer has; quantized ones are packed."""
    return "model_type" in config and "quantization_config" not in config


def _compare(config: Path, stored: Shapes, who: str) -> None:
    for name, promised in (_promised_shapes(config.parent, who) if stored else {}).items():
        short = name.partition(".")[2]  # as checkpoints without a head have it
        found = stored.get(name, stored.get(short, promised))
        if found != promised:
            raise sizes_differ(f"{who}: '{config.parent}'", name, promised, found)


def sizes_differ(where: str, name: str, expected: tuple[int, ...], got: tuple[int, ...]) -> InputError:
    """Return the error about a weight of another shape than follows from config.json."""
    return InputError(
        where=where,
        expected=f"weights that fit config.json, with {name} of shape {expected}",
        got=f"the shape {got}",
        hint="copy or download both again",
    )


def _stored_shapes(folder: Path, who: str) -> Shapes:
    """Return the shapes of the weights in a folder by name."""
    whole = folder / "model.safetensors"
    safe = [whole] if whole.is_file() else sorted(folder.glob("model-*.safetensors"))
    pickled = folder / "pytorch_model.bin"
    if not safe and pickled.is_file():
        weights = read_pickled(pickled, who, device="meta")
        return {name: tuple(weight.shape) for name, weight in weights.items() if hasattr(weight, "shape")}
    return {name: shape for path in safe for name, shape in weight_shapes(path).items()}


def _promised_shapes(folder: Path, who: str) -> Shapes:
    """Return the shapes that config.json asks for by name; none if no model can be made of it."""
    torch, transformers = need_torch("torch", who), need_torch("transformers", who)
    masked = transformers.AutoModelForMaskedLM
    try:
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        kind = masked if type(config) in masked._model_mapping else transformers.AutoModel
        with torch.device("meta"):
            model = kind.from_config(config, trust_remote_code=False)
    except Exception:  # the library reports what is wrong with it, if it reads this folder at all
        return {}
    return {name: tuple(weight.shape) for name, weight in model.state_dict().items()}


@contextlib.contextmanager
def bounded(name: str, who: str) -> Iterator[None]:
    """Have torch raise InputError instead of making a tensor that is far larger than all files of a model.

    This holds for parts of a model that `check_sizes` does not know: they believe their own config.json.
    """
    torch = need_torch("torch", who)
    makers = {getattr(torch, maker) for maker in _MAKE_TENSORS}
    meta = torch.device("meta")

    class Bounded(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            options = kwargs or {}
            if func in makers and str(options.get("device")) != "meta":
                kept = {key: value for key, value in options.items() if key not in _NOT_ON_META}
                made = func(*args, **kept, device=meta)  # costs nothing, and has the size
                _check_growth(made.numel() * made.element_size(), tuple(made.shape), name, who)
            return func(*args, **options)

    with Bounded():
        yield


def _check_growth(num_bytes: int, shape: tuple[int, ...], name: str, who: str) -> None:
    if num_bytes <= _ALWAYS_ALLOWED:
        return
    files = [path for folder in model_folders(name) for path in files_below(folder) if path.is_file()]
    stored = sum(path.stat().st_size for path in files)
    if num_bytes > _MOST_GROWTH * stored:
        raise InputError(
            where=f"{who}: '{name}'",
            expected=f"a config.json that fits its files, which have {stored:,} bytes in all",
            got=f"one that asks for weights of shape {shape}, {num_bytes:,} bytes",
            hint="copy or download them again",
        )
