"""From the options of a build, in flags and a configuration file, to arguments of `segmax.build`."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_choice, shown
from segmax.base.display import counted, size_text
from segmax.base.errors import ConfigError, InputError
from segmax.base.memory import MemoryLimit
from segmax.building.clustering import Clustering, Dense, Labels, Pooled, Sparse
from segmax.cli.config_file import config_text, read_config_file
from segmax.cli.options import OPTIONS, Options, read_flags
from segmax.cli.parser import shows_progress
from segmax.inspection.summary import step_text
from segmax.search.arguments import num_threads
from segmax.storage.config import BuildConfig
from segmax.vectors.documents import POOLINGS

if TYPE_CHECKING:
    import segmax

_CONFIG = tuple(field.name for field in dataclasses.fields(BuildConfig))
_KMEANS = frozenset({"num_clusters", "dimensions", "restarts", "iterations"})
#: What documents can be clustered by, with the options that apply only to some of these.
_APPLY: Mapping[str, frozenset[str]] = {
    "sparse": _KMEANS,
    "dense": _KMEANS | {"dense", "dense_bits"},
    "labels": frozenset({"labels"}),
    **dict.fromkeys(POOLINGS, _KMEANS | {"dense_bits"}),
}
_SPECIAL = frozenset().union(*_APPLY.values())


@dataclasses.dataclass(frozen=True)
class BuildArguments:
    """Options of a build that were given, and what follows from them; none of their files is read yet."""

    options: Options
    kind: str  #: what documents are clustered by
    config: BuildConfig

    def keywords(self) -> dict[str, Any]:
        """Return the arguments of `segmax.build`; reads the files that options name."""
        given = self.options
        made = {
            "clustering": self._clustering(),
            "config": self.config,
            "overwrite": given.get("overwrite", False),
            "progress": shows_progress(given.get("progress")),
            **{name: given.get(name) for name in ("threads", "memory_limit", "scratch")},
        }
        for name, read in (("ids", _ids), ("terms", _lines), ("segments", _segments)):
            if name in given:
                made[name] = read(given[name])
        return made

    @property
    def pooling(self) -> dict[str, Any]:
        """The argument of the encoder whose pooled embeddings documents are clustered by, if they are."""
        return {"pooling": (self.kind,)} if self.kind in POOLINGS else {}

    def _clustering(self) -> Clustering:
        if self.kind == "labels":
            return Labels(_array(self.options["labels"], "cluster labels"))
        if self.kind == "sparse":
            return _sparse(self.options)
        given = _given(self.options, "dimensions", "restarts", "iterations")
        given |= {"bits": 8} if "dense_bits" in self.options else {}
        return Pooled(self.kind, **given) if self.kind in POOLINGS else Dense(self.options["dense"], **given)

    def to_toml(self) -> str:
        """Return the effective options as a configuration file."""
        hidden = _SPECIAL - _APPLY[self.kind]
        if "segments" in self.options:
            hidden |= {"segmentation"}
        return config_text({**self._defaults(), **self.options, **self._plain()}, hidden)

    def _defaults(self) -> Options:
        values = {name: option.value for name, option in OPTIONS.items()}
        return {**values, "dimensions": None} if self.kind == "dense" else values

    def _plain(self) -> Options:
        return {"clustering": self.kind, "pruning": [step_text(step) for step in self.config.pruning]}


def read_build_arguments(args: argparse.Namespace, clusterings: Sequence[str]) -> BuildArguments:
    """Return what was asked for, on the command line or in a file, or raise ConfigError.

    Parameters
    ----------
    args
        Parsed flags; those that were not given are absent.
    clusterings
        What the command can cluster documents by.
    """
    filed = read_config_file(args.config) if "config" in args else {}
    options = _merged(read_flags(args), filed)
    kind = checked_choice("clustering", _kind_of(options), clusterings)
    _check_applicable(options, kind, clusterings)
    _sparse(options)
    num_threads(options.get("threads"))
    MemoryLimit(options.get("memory_limit"))
    return BuildArguments(options, kind, BuildConfig(**_given(options, *_CONFIG)))


def _given(options: Options, *names: str) -> Options:
    return {name: options[name] for name in names if name in options}


def _sparse(options: Options) -> Sparse:
    """Return k-means by sparse vectors; checks the options that it shares with dense ones."""
    return Sparse(**_given(options, "dimensions", "restarts", "iterations"))


# --- options that depend on each other -------------------------------------------------------------------------------


def _merged(given: Options, filed: Options) -> Options:
    """Lay the command line over the file; where it chooses otherwise, options that only suit the file's choice go."""
    if not given.keys().isdisjoint(("clustering", "dense", "labels")):
        hidden = (_SPECIAL - _APPLY.get(_kind_of(given), frozenset())) | {"clustering"}
        filed = {name: value for name, value in filed.items() if name not in hidden}
    for name, other in (("segments", "segmentation"), ("segmentation", "segments")):
        if name in given:
            filed = {key: value for key, value in filed.items() if key != other}
    return {**filed, **given}


def _kind_of(options: Options) -> str:
    """Return what documents are clustered by: as `clustering` says, or as the files imply."""
    implied = "labels" if "labels" in options else "dense" if "dense" in options else "sparse"
    return str(options.get("clustering", implied))


def _check_applicable(options: Options, kind: str, clusterings: Sequence[str]) -> None:
    """Raise ConfigError where options contradict each other, or one is missing."""
    for one, other in (("dense", "labels"), ("segments", "segmentation")):
        if one in options and other in options:
            raise ConfigError(expected=f"one of {OPTIONS[one].flag} and {OPTIONS[other].flag}", got="both")
    for name in options:
        if name in _SPECIAL and name not in _APPLY[kind]:
            owners = " or ".join(owner for owner in clusterings if name in _APPLY[owner])
            raise ConfigError(
                option=name,
                expected=f"left out with --clustering {kind} (it applies to {owners})",
                got=shown(options[name]),
            )
    if kind in ("dense", "labels") and kind not in options:
        raise ConfigError(option=kind, expected=f"an .npy file, which --clustering {kind} needs", got="none")
    if options.get("dense_bits", 8) != 8:
        raise ConfigError(option="dense_bits", expected="8", got=options["dense_bits"])


# --- files that options name -----------------------------------------------------------------------------------------


def _array(path: str, what: str) -> NDArray[Any]:
    """Map an .npy file: a header that promises more than the file holds is an error, not memory."""
    from segmax.io.read_errors import one_line

    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError, OverflowError, MemoryError, TypeError, SyntaxError) as error:
        reason = getattr(error, "strerror", None) or one_line(error)
        raise InputError(
            where=f"'{path}'", expected=f"an .npy file of {what}", got=f"none that can be read ({reason})"
        ) from error


def _segments(path: str) -> Any:
    return _array(path, "segment labels")


def _ids(path: str) -> Any:
    return _array(path, "ids") if path.endswith(".npy") else _lines(path)


def _lines(path: str) -> list[str]:
    """Read lines of text. Only a line feed ends one: vocabularies hold other characters that Unicode calls breaks."""
    from segmax.io.streams import read_lines

    return [line for _, line in read_lines(Path(path))]


# --- what was built --------------------------------------------------------------------------------------------------


def summary(index: segmax.Index, output: str, seconds: float) -> tuple[str, str]:
    """Return two lines about an index that was built."""
    per_posting = f"{index.num_bytes / index.num_postings:.2f}" if index.num_postings else "no"
    return (
        f"built '{output}' in {seconds:,.1f} s: {counted(index.num_docs, 'document')}, "
        f"{counted(index.num_postings, 'posting')}, {counted(index.num_clusters, 'cluster')} x "
        f"{counted(index.num_segments, 'segment')}, {index.bits} bits",
        f"{size_text(index.num_bytes)}, {per_posting} bytes per posting, "
        f"quantization error {index.quantization_error:.2%}",
    )
