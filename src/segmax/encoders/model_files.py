"""The files of a model: where they are, whether they are whole, and that they bring no code that would run."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import pickle
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from segmax.base.checks import shown
from segmax.base.errors import NEWER_HINT, ConfigError, InputError, SegmaxError
from segmax.base.files import open_regular
from segmax.encoders.hub import cached_folders, fetch_options, must_come_from_cache
from segmax.encoders.packages import need_torch

#: The largest number that options of a model may have; sizes and token ids are far below.
_LARGEST = 2**31 - 1
#: The largest numbers for options by how they end: libraries make an object for each.
_MOST_OF = {"layers": 1000, "layer": 1000, "groups": 1000, "experts": 10_000, "num_labels": 1_000_000}
_MOST_FILES = 100_000
_MOST_JSON_BYTES = 1 << 28  # vocabularies are the largest of these files, with some tens of megabytes
#: Options of a model's files for which the libraries would run code that comes from elsewhere.
_RUN_CODE = frozenset({"trust_remote_code", "weights_only", "allow_all_kernels", "use_kernels", "kernel_config"})
#: Parts of the errors of libraries that find code beside a model, or pickled objects that are no weights.
_WANTS_CODE = re.compile("trust_remote_code|custom code")
#: Parts of their errors about weights of unexpected shapes.
_SIZES_DIFFER = re.compile("ignore_mismatched_sizes|size mismatch|above report")
#: The first torch whose way to read pickled weights cannot be made to run code.
_SAFE_TORCH = (2, 6)


def find_model(name: str, who: str) -> bool:
    """Check that a folder holds a whole model, or that a name leads to one; return whether to use local files only.

    Raises
    ------
    ConfigError
        There is no such folder, or neither the hub nor the cache is at hand for a name.
    InputError
        A file in the folder is damaged, or would have code run.
    """
    folder = Path(name)
    if is_folder(folder):
        check_files(folder)
        return True
    check_name(name, who)
    local = must_come_from_cache(name, who)
    with loading(who, name):
        for cached in [*cached_folders(name)] if local else [fetch_options(name, who)]:
            check_files(cached)
    return local


def model_folders(name: str) -> list[Path]:
    """Return where the files of a model are: its folder, or the snapshots of a name on the hub in the caches."""
    return [Path(name)] if is_folder(Path(name)) else cached_folders(name)


def check_name(name: str, who: str) -> None:
    """Raise ConfigError where a name looks like a folder, and there is none."""
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ConfigError(
            where=who,
            expected="the folder of a model, or a name on the hub",
            got=f"{shown(name)}, which does not exist",
        )


def is_folder(folder: Path) -> bool:
    """Return whether there is such a folder; an invalid path is no folder."""
    try:
        return folder.is_dir()
    except (OSError, ValueError):  # a name that is too long, or has a zero byte
        return False


def is_there(path: Path) -> bool:
    """Return whether something is at a path; there is nothing at an invalid path."""
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long, or has a zero byte
        return False


#: The folder of an export that lies beside a model's files, as older versions of segmax wrote it.
EXPORT_FOLDER = "segmax-export"
#: What says that a folder is an export, and which.
EXPORT_NAME = "export.json"


def is_export(folder: Path) -> bool:
    """Return whether a folder is an exported model, and so an encoder without the model's own files."""
    return is_there(folder / EXPORT_NAME) and not is_there(folder / "config.json")


def stamps(folder: Path, *, times: bool = False) -> list[list[Any]]:
    """Return name and size of a model's files, and a checksum of the small ones; nothing for a name on the hub.

    Parameters
    ----------
    folder
        The model.
    times
        Whether to add, for large files, when they were last written.
    """
    found: list[list[Any]] = []
    for file in sorted(folder.rglob("*")) if is_folder(folder) else ():
        name = file.relative_to(folder)
        if file.is_file() and name.parts[0] != EXPORT_FOLDER:
            stat = file.stat()
            large = stat.st_mtime_ns if times else None
            checksum = zlib.crc32(file.read_bytes()) if stat.st_size < 1 << 20 else large
            found.append([name.as_posix(), stat.st_size, checksum])
    return found


# --- files -----------------------------------------------------------------------------------------------------------


def check_files(folder: Path) -> None:
    """Raise InputError if a file of a model is not what its name says, before a library reads it.

    Libraries follow links to subfolders, so this does, too.
    """
    has_modules = (folder / "modules.json").is_file()
    for path in files_below(folder):
        if not path.is_file() and not path.is_dir():  # a pipe would be read for ever
            raise damaged(path, "a regular file", "something else")
        if path.name == "config.json":
            _check_config(path, may_be_empty=has_modules or path.parent != folder)
        elif fnmatch.fnmatch(path.name, "sentence_*_config.json"):
            _check_options(path, read_json(path))
        elif path.name == "model.safetensors":
            weight_shapes(path)
        elif path.name == "pytorch_model.bin" and path.is_file() and path.stat().st_size == 0:
            raise damaged(path, "the weights of a model", "an empty file")


def files_below(folder: Path) -> list[Path]:
    """Return what lies in a folder and its subfolders, also behind links, but for links that lead nowhere.

    Raises
    ------
    InputError
        There is far more than a model has, such as behind a link to the root of the system.
    """
    found: list[Path] = []
    seen: set[tuple[int, int]] = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        stat = Path(parent).stat()
        if (stat.st_dev, stat.st_ino) in seen:  # a link that leads back
            folders.clear()
            continue
        seen.add((stat.st_dev, stat.st_ino))
        found += [path for name in (*folders, *names) if (path := Path(parent, name)).exists()]
        if len(found) > _MOST_FILES:
            raise InputError(
                where=f"'{folder}'", expected="the folder of a model", got=f"more than {_MOST_FILES:,} files in it"
            )
    return sorted(found)


def _check_config(path: Path, *, may_be_empty: bool) -> None:
    content = read_json(path)
    if not isinstance(content, dict) or not (content or may_be_empty):  # modules may do without
        raise damaged(path, "an object with a model's options", str(content)[:40])
    _check_sizes(path, content)


def read_json(path: Path) -> Any:
    """Return what a JSON file of a model holds, or raise InputError."""
    try:
        if not path.is_file() or path.stat().st_size > _MOST_JSON_BYTES:
            raise damaged(path, f"a regular file of at most {_MOST_JSON_BYTES >> 20} MiB", "something else")
        return json.loads(path.read_bytes())
    except OSError as error:
        raise cannot_read(path, error) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise damaged(path, "JSON", f"something else ({error})") from error


def _check_sizes(path: Path, content: dict[str, Any]) -> None:
    """Raise InputError where a library would loop or allocate for ever."""
    for name, value in content.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            continue
        most = next((limit for ending, limit in _MOST_OF.items() if name.endswith(ending)), _LARGEST)
        if not -_LARGEST <= value <= most:
            raise damaged(path, f"{name} <= {most}", str(value)[:40])


def _check_options(path: Path, content: Any) -> None:
    """Raise InputError where options of a module would have the libraries run code."""
    if not isinstance(content, dict):
        raise damaged(path, "an object with a module's options", str(content)[:40])
    for options in (content, *(value for value in content.values() if isinstance(value, dict))):
        wrong = sorted(_RUN_CODE & options.keys())
        if wrong:
            raise InputError(
                where=f"'{path}'",
                expected="no option that would run code of the model, which segmax never does",
                got=f"{wrong[0]!r}",
                hint="remove it",
            )


def weight_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights in a .safetensors file by name, without reading them."""
    return {name: tensor.shape for name, tensor in stored_tensors(path).items()}


class StoredTensor(NamedTuple):
    """Where a tensor is in a .safetensors file."""

    dtype: str  # such as "F32"
    shape: tuple[int, ...]
    start: int  # in bytes from the beginning of the file
    stop: int


def stored_tensors(path: Path) -> dict[str, StoredTensor]:
    """Return where the tensors of a .safetensors file are by name, without reading them."""
    try:
        size = path.stat().st_size
        with open_regular(path) as file:  # the length of a JSON object, then that object, with a key per tensor
            (length,) = struct.unpack("<Q", file.read(8))
            header: Any = json.loads(file.read(length)) if length <= min(size, _MOST_JSON_BYTES) else None
        return {name: _stored_tensor(told, 8 + length) for name, told in header.items() if name != "__metadata__"}
    except OSError as error:
        raise cannot_read(path, error) from error
    except (struct.error, AttributeError, TypeError, LookupError, ValueError, RecursionError, MemoryError) as error:
        raise damaged(path, "weights in the format of safetensors", "something else") from error


def _stored_tensor(told: Any, first: int) -> StoredTensor:
    start, stop = map(int, told["data_offsets"])
    return StoredTensor(str(told["dtype"]), tuple(map(int, told["shape"])), first + start, first + stop)


def read_pickled(path: Path, who: str, *, device: str = "cpu") -> dict[str, Any]:
    """Return the weights of a file that `torch.save` wrote: tensors and nothing else, so that no code runs."""
    torch = need_torch("torch", who)
    version = tuple(int(part) for part in re.findall(r"\d+", str(torch.__version__))[:2])
    if version < _SAFE_TORCH:
        raise ConfigError(
            where=who,
            expected=f"torch 2.6 or newer, to read '{path}' safely",
            got=f"torch {torch.__version__}",
            hint="upgrade torch, or convert the weights to model.safetensors",
        )
    try:
        found = torch.load(path, map_location=device, weights_only=True)
    except OSError as error:
        raise cannot_read(path, error) from error
    except Exception as error:  # torch has no common class for what can be wrong with a file
        raise damaged(path, "the weights of a model, as torch saves them", "something else") from error
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise damaged(path, "weights by name", type(found).__name__)
    size = path.stat().st_size
    for name, weight in found.items():
        # One number can be stored as a tensor of any shape, which takes memory once it is copied.
        if isinstance(weight, torch.Tensor) and weight.numel() * weight.element_size() > size:
            raise damaged(path, "weights that fill the file", f"{name[:80]!r} of shape {tuple(weight.shape)}")
    return found


# --- errors ----------------------------------------------------------------------------------------------------------


def damaged(path: Path, expected: str, got: str) -> InputError:
    """Return the error about a file that is not what was expected."""
    return InputError(
        where=f"'{path}'", expected=expected, got=got, hint="the file is damaged; copy or download it again"
    )


def check_version(path: Path, version: object, known: int) -> None:
    """Raise InputError unless a file of ours is of the version that this segmax reads."""
    if type(version) is int and version > known:
        expected = f"version {known}, which this segmax reads"
        raise InputError(where=f"'{path}'", expected=expected, got=str(version)[:40], hint=NEWER_HINT)
    if version != known:
        raise damaged(path, f"version {known}", str(version)[:40])


def cannot_read(path: Path, error: OSError) -> InputError:
    """Return the error about a file that the system does not let us read."""
    return InputError(f"could not be read ({error.strerror or error})", where=f"'{path}'")


@contextlib.contextmanager
def loading(who: str, name: str) -> Iterator[None]:
    """Turn whatever a library raises over a model into an InputError: they have no common class for that."""
    where = f"{who}: '{name}'"
    try:
        yield
    except SegmaxError:
        raise
    except pickle.UnpicklingError as error:  # torch would have it read in a way that runs code
        raise InputError(
            where=where,
            expected="the weights of a model in pytorch_model.bin",
            got="something else",
            hint="copy or download it again",
        ) from error
    except Exception as error:
        if _WANTS_CODE.search(str(error)):
            raise InputError(
                where=where, expected="a model without code of its own, which segmax never runs", got="one with code"
            ) from error
        if _SIZES_DIFFER.search(str(error)):
            raise InputError(
                where=where,
                expected="weights that fit config.json",
                got="weights of other shapes",
                hint="copy or download both again",
            ) from error
        reason = (str(error).splitlines() or [""])[0][:300].rstrip(".") or type(error).__name__
        hint = "are all files of the model there, and whole?"
        raise InputError(f"could not be loaded ({reason})", where=where, hint=hint) from error
