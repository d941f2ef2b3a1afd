"""Folders of Hugging Face datasets: which files they hold."""

from __future__ import annotations

import json
import re
from pathlib import Path

from segmax.base.errors import InputError
from segmax.io.read_errors import reading

_SPLIT = re.compile(r"(?P<split>.+?)-\d+-of-\d+|(?P<known>train|test|validation|valid|val|dev)(?:[-_.\d].*)?")


def dataset_files(folder: Path) -> list[Path]:
    """Return the files of a dataset folder, or of its only split, in order; none if it is no such folder."""
    if (folder / "dataset_dict.json").is_file():
        splits = _named_in(folder / "dataset_dict.json", "splits")
        if len(splits) != 1:
            raise InputError(
                where=f"'{folder}'",
                expected=f"one split, as in '{folder / splits[0]}'",
                got=f"the splits {', '.join(splits)}",
                hint="choose one",
            )
        return dataset_files(folder / splits[0])
    if (folder / "state.json").is_file():
        return [folder / name for name in _named_in(folder / "state.json", "_data_files", "filename")]
    files = sorted([*folder.glob("*.parquet"), *folder.glob("data/*.parquet")])
    splits = sorted({split for file in files if (split := _split_of(file)) is not None})
    if len(splits) > 1:
        some = next(file for file in files if _split_of(file) == splits[0])
        raise InputError(
            where=f"'{folder}'",
            expected=f"files of one split, as in '{some.parent / splits[0]}*.parquet'",
            got=f"the splits {', '.join(splits)}",
            hint="name the files of one",
        )
    return files


def _named_in(path: Path, key: str, member: str | None = None) -> list[str]:
    """Return the names in one of the small files that datasets writes."""
    try:
        with reading(path):
            content = path.read_bytes()
        entries = json.loads(content)[key]
        names = [entry if member is None else entry[member] for entry in entries]
        if not names or not all(isinstance(name, str) and _is_plain_name(name) for name in names):
            raise ValueError("expected names of files beside it")
    except InputError:
        raise
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise InputError(
            where=f"'{path}'",
            expected=f"what datasets writes, names under {key!r}",
            got=f"others ({error})",
            hint="save the dataset again",
        ) from error
    return names


def _is_plain_name(name: str) -> bool:
    """Whether this names something in the folder itself, not above it or elsewhere."""
    return name not in ("", ".", "..") and Path(name).name == name


def _split_of(file: Path) -> str | None:
    """Return the split in the name of a file, as in train-00000-of-00002.parquet; None if there is none."""
    found = _SPLIT.fullmatch(file.stem)
    return None if found is None else found["split"] or found["known"]
