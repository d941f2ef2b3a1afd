"""The options of a build: one table for the flags of `segmax build` and `segmax index`, and for configuration files.

Type and default of an option come from `BuildConfig` and `Sparse`, where one of them has a field of its name.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from segmax.base.errors import ConfigError
from segmax.building.clustering import Sparse
from segmax.cli.parser import whole_number
from segmax.storage.config import DOCS_PER_CLUSTER, BuildConfig
from segmax.vectors.pruning import Step, parse_step, step_from_dict

#: Options by name, as given.
Options = dict[str, Any]

#: What documents can be clustered by.
CLUSTERINGS = ("sparse", "dense", "labels")


# --- kinds of values -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Kind:
    """What values an option takes."""

    expected: str
    types: tuple[type, ...]  #: in TOML
    from_text: Callable[[str], Any] = str  #: on the command line


def _step_from_text(text: str) -> Step:
    try:
        return parse_step(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


WHOLE = Kind("a whole number", (int,), whole_number)
WORD = Kind("a word", (str,))
FILE = Kind("a file name", (str,))
FOLDER = Kind("a directory", (str,))
SIZE = Kind("a size in bytes, as a number or like '8GiB'", (int, str))
SWITCH = Kind("true or false", (bool,))
STEPS = Kind("a list of steps such as 'top-terms=64' or {step = 'top_terms', count = 64}", (list,), _step_from_text)


def _kind_of(annotation: Any) -> Kind:
    """Return the kind of a field's values, by its type."""
    if get_origin(annotation) is Literal:
        return WORD
    return {bool: SWITCH, int: WHOLE, int | None: WHOLE}.get(annotation, STEPS)


# --- the table -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Option:
    """An option: `name` in Python and in a configuration file, `--name` with hyphens on the command line."""

    name: str
    kind: Kind
    metavar: str
    help: str
    default: str  #: in words, for help texts
    value: Any = None  #: the default, where there is one

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return "--" + self.name.replace("_", "-")

    def read_entry(self, value: Any, where: str) -> Any:
        """Return the value that a configuration file has, or raise ConfigError."""
        if type(value) not in self.kind.types:
            raise ConfigError(where=where, expected=self.kind.expected, got=repr(value))
        return [_step_from_toml(step, where) for step in value] if self.kind is STEPS else value


def _step_from_toml(value: Any, where: str) -> Step:
    """Return a pruning step, given as text or as a table."""
    try:
        return parse_step(value) if isinstance(value, str) else step_from_dict(value)
    except ConfigError as error:
        raise error.at(where) from error


def _field(name: str, help: str, *, metavar: str | None = None, default: str | None = None) -> Option:
    """Return the option of a field of `BuildConfig` or `Sparse`."""
    owner: type[BuildConfig | Sparse] = BuildConfig if hasattr(BuildConfig, name) else Sparse
    annotation, value = get_type_hints(owner)[name], getattr(owner, name)
    words = _metavar(annotation) if metavar is None else metavar
    return Option(name, _kind_of(annotation), words, help, _in_words(value) if default is None else default, value)


def _metavar(annotation: Any) -> str:
    return "|".join(get_args(annotation)) if get_origin(annotation) is Literal else "N"


def _in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value == () else str(value)


_CLUSTERS = (
    _field("num_clusters", "number of clusters", default=f"one per {DOCS_PER_CLUSTER:,} documents"),
    _field(
        "num_segments",
        "number of segments per cluster; more of them tighten bounds and enlarge the index; 1 stores none",
    ),
    _field("segment_bounds", "what is kept of each segment; exact: maxima as the paper has them, for its methods"),
    _field("segmentation", "how the documents of a cluster are assigned to segments"),
    Option("segments", FILE, "FILE.npy", "use these segments: a label per document", "assigned by --segmentation"),
    _field("document_order", "order of the documents inside a cluster"),
    _field("seed", "random seed; the same seed gives the same index"),
)
_CLUSTERING = (
    Option(
        "clustering",
        WORD,
        "|".join(CLUSTERINGS),
        "what documents are clustered by: their sparse vectors, the vectors of --dense, or the labels of --labels",
        "sparse, or what --dense and --labels imply",
        "sparse",
    ),
    Option("dense", FILE, "FILE.npy", "cluster by these dense vectors, one per document", "none"),
    Option("labels", FILE, "FILE.npy", "use these clusters: a label per document", "none"),
    _field(
        "dimensions",
        "reduce vectors to this many dimensions before clustering",
        default=f"{Sparse.dimensions} for sparse vectors, all for dense ones",
    ),
    Option("dense_bits", WHOLE, "8", "keep 8 bits per dimension of dense vectors while clustering", "all bits"),
    _field("restarts", "run k-means this many times and keep the best result"),
    _field("iterations", "number of k-means iterations"),
)
_CONTENTS = (
    _field(
        "pruning",
        "drop postings before building: doc-threshold=W, mass-share=P, top-terms=N or max-postings=N; "
        "query-threshold=W drops terms of queries. Repeat the option to apply several steps in order",
        metavar="STEP",
    ),
    _field("bits", "bits per stored weight", metavar="8|16"),
    _field("compact", "make the index smaller and searches slower"),
    _field("calibrate", "calibrate the index for --target-recall of segmax search"),
    Option("ids", FILE, "FILE", "document ids: a text file with one per line, or .npy", "row numbers"),
    Option("terms", FILE, "FILE", "vocabulary: a text file with one term per line", "terms are numbers"),
    Option(
        "encoder",
        WORD,
        "FOLDER|MODEL",
        "encoder that made the vectors, to search for words: the BM25 folder that segmax encode wrote, or a model",
        "none; queries are vectors",
    ),
    Option(
        "texts",
        FILE,
        "FILE",
        "texts of the documents, to store and show in results: a file, a BEIR folder or an ir_datasets id",
        "none",
    ),
    Option(
        "metadata",
        FILE,
        "FILE.jsonl",
        "metadata of the documents, to filter searches by: an object per line, in the order of the vectors",
        "none",
    ),
    Option("overwrite", SWITCH, "", "replace the index at OUT", "no", value=False),
)
_RESOURCES = (
    Option("threads", WHOLE, "N", "number of threads to use", "one per core"),
    Option("memory_limit", SIZE, "SIZE", "memory to use, like 8GiB; the rest goes to disk", "half of the machine's"),
    Option("scratch", FOLDER, "DIR", "directory for temporary files", "the one that holds OUT"),
    Option("progress", SWITCH, "", "show progress bars on standard error", "if it is a terminal"),
)
GROUPS: Mapping[str, tuple[Option, ...]] = {
    "clusters and segments": _CLUSTERS,
    "clustering": _CLUSTERING,
    "contents of the index": _CONTENTS,
    "resources (the index does not depend on them)": _RESOURCES,
}
OPTIONS: Mapping[str, Option] = {option.name: option for options in GROUPS.values() for option in options}


# --- flags -----------------------------------------------------------------------------------------------------------


def add_build_options(
    parser: argparse.ArgumentParser,
    leave_out: frozenset[str] = frozenset(),
    instead: Mapping[str, Option] = MappingProxyType({}),
) -> None:
    """Add a flag per option. Options that are not given are absent from the parsed arguments.

    Parameters
    ----------
    parser
        Gets a group of flags per group of options.
    leave_out
        The names of options that the command does not have.
    instead
        Options by name that take the place of those in the table.
    """
    for title, options in GROUPS.items():
        group = parser.add_argument_group(title)
        for option in options:
            if option.name not in leave_out:
                _add_flag(group, instead.get(option.name, option))


def _add_flag(group: argparse._ArgumentGroup, option: Option) -> None:
    text = f"{option.help} (default: {option.default})".replace("%", "%%")
    if option.kind is SWITCH:
        group.add_argument(option.flag, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=text)
    else:
        action = "append" if option.kind is STEPS else "store"
        group.add_argument(
            option.flag,
            dest=option.name,
            action=action,
            type=option.kind.from_text,
            metavar=option.metavar,
            help=text,
        )


def read_flags(args: argparse.Namespace) -> Options:
    """Return the options that were given on the command line."""
    return {name: value for name, value in vars(args).items() if name in OPTIONS}
