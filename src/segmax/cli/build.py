"""The command `segmax build`: its options, on the command line or in a file."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import sys
import time
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import segmax
from segmax.base.checks import checked_choice, parsed_int
from segmax.base.display import counted, json_text
from segmax.base.errors import ConfigError, InputError
from segmax.base.memory import MemoryLimit
from segmax.building.clustering import Dense, Labels, Representation, Sparse
from segmax.cli.encode import add_model_options, encoder_options
from segmax.cli.parser import Parser
from segmax.cli.show import say
from segmax.encoders import load_encoder
from segmax.inspection.summary import size_text, step_text
from segmax.search.arguments import num_threads
from segmax.storage.config import DOCS_PER_CLUSTER, DOCUMENT_ORDERS, SEGMENTATIONS, BuildConfig
from segmax.text.pipeline import CLUSTER_BY, from_vectors
from segmax.vectors.pruning import Step, parse_step, step_from_dict

_REPRESENTATIONS = ("sparse", "dense", "labels")

Options = dict[str, Any]


# --- options of build: one table for the flags, the configuration file and --print-config ----------------------------


@dataclasses.dataclass(frozen=True)
class _Kind:
    """What values an option takes: as text on the command line, or as TOML."""

    expected: str
    types: tuple[type, ...]
    from_text: Callable[[str], Any] = str  # None: the text is none


_WHOLE = _Kind("a whole number", (int,), parsed_int)
_FILE = _Kind("a file name", (str,))
_FOLDER = _Kind("a directory", (str,))
_WORD = _Kind("a word", (str,))
_SIZE = _Kind("a size in bytes, as a number or like '8GiB'", (int, str))
_SWITCH = _Kind("true or false", (bool,))
_STEPS = _Kind("a list of steps such as 'top-terms=64' or {step = 'top_terms', count = 64}", (list,))


@dataclasses.dataclass(frozen=True)
class _Option:
    """An option of build: `name` in the configuration file, --name with hyphens on the command line."""

    name: str
    kind: _Kind
    metavar: str
    help: str
    unset: str | None = None  #: what happens without it, where that is no value

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


_GROUPS: Mapping[str, tuple[_Option, ...]] = {
    "clusters and segments": (
        _Option("num_clusters", _WHOLE, "N", "how many clusters k-means makes",
                f"one per {DOCS_PER_CLUSTER:,} documents"),
        _Option("num_segments", _WHOLE, "N", "parts of a cluster whose term maxima are kept"),
        _Option("segmentation", _WORD, "|".join(SEGMENTATIONS), "how documents are put into segments"),
        _Option("segments", _FILE, "FILE.npy", "a segment label per document", "as segmentation says"),
        _Option("order", _WORD, "|".join(DOCUMENT_ORDERS), "how documents follow each other inside a cluster"),
        _Option("seed", _WHOLE, "N", "of clusters and segments; the same seed gives the same index"),
    ),
    "what clusters are made from": (
        _Option("clusters", _WORD, "|".join(_REPRESENTATIONS), "implied by --dense and --labels"),
        _Option("dense", _FILE, "FILE.npy", "cluster by these dense vectors, a row per document", "the sparse vectors"),
        _Option("labels", _FILE, "FILE.npy", "take these clusters, a label per document", "k-means makes them"),
        _Option("dimensions", _WHOLE, "N", "reduce vectors to so many before k-means", "all of the dense vectors"),
        _Option("dense_bits", _WHOLE, "8", "keep a byte per dimension of the dense vectors", "floats"),
        _Option("restarts", _WHOLE, "N", "how often k-means starts anew; the best result stays"),
        _Option("iterations", _WHOLE, "N", "rounds of k-means"),
    ),
    "what is stored": (
        _Option("pruning", _STEPS, "STEP", "drop postings first: doc-threshold=W, mass-share=P, top-terms=N or "
                "max-postings=N; query-threshold=W is for queries. Repeat for several steps, applied in order"),
        _Option("bits", _WHOLE, "8|16", "bits per stored weight"),
        _Option("compact", _SWITCH, "", "a smaller index for slower searches"),
        _Option("calibrate", _SWITCH, "", "measure what approximate settings keep, for target_recall", "yes"),
        _Option("ids", _FILE, "FILE", "document ids: text, one per line, or .npy", "row numbers"),
        _Option("terms", _FILE, "FILE", "the vocabulary: text, one term per line", "terms are numbers"),
        _Option("encoder", _WORD, "FOLDER|MODEL", "what made the vectors, for queries in words: the folder that segmax "
                "encode saved of BM25, or a model", "queries are vectors"),
        _Option("texts", _FILE, "FILE", "what they were made of, kept for results: a file, a BEIR folder or an "
                "ir_datasets id", "no texts are kept"),
        _Option("overwrite", _SWITCH, "", "replace the index at OUT"),
    ),
    "how the work is done (the index does not depend on it)": (
        _Option("threads", _WHOLE, "N", "threads to use", "one per core"),
        _Option("memory_limit", _SIZE, "SIZE", "memory to use, like 8GiB; more goes to disk", "half of the machine's"),
        _Option("scratch", _FOLDER, "DIR", "the directory for that", "the one that holds OUT"),
        _Option("progress", _SWITCH, "", "show progress bars", "on a terminal"),
    ),
}  # fmt: skip
_OPTIONS = {option.name: option for options in _GROUPS.values() for option in options}

#: The options that only some ways of making clusters have.
_APPLY: Mapping[str, frozenset[str]] = {
    "sparse": frozenset({"clusters", "num_clusters", "dimensions", "restarts", "iterations"}),
    "dense": frozenset({"clusters", "num_clusters", "dense", "dimensions", "dense_bits", "restarts", "iterations"}),
    "labels": frozenset({"clusters", "labels"}),
}
_SPECIAL = frozenset().union(*_APPLY.values())


def _defaults(kind: str) -> Options:
    """Return what the library does where nothing is said, by option."""
    config = BuildConfig().to_dict()
    return {**config, "clusters": kind, **_cluster_defaults(kind), "overwrite": False}


def _cluster_defaults(kind: str) -> Options:
    if kind == "labels":
        return {}
    values = (Dense(np.zeros((1, 1))) if kind == "dense" else Sparse()).to_dict()
    return {("dense_bits" if name == "bits" else name): value for name, value in values.items() if name != "kind"}


def _help(option: _Option) -> str:
    default: Any = {**_defaults("dense"), **_defaults("sparse")}.get(option.name)
    if option.name == "dimensions":
        shown = f"{default} of the sparse vectors, {option.unset}"
    elif option.kind is _SWITCH:
        shown = option.unset or "no"
    else:
        shown = option.unset or ("none" if default == [] else default)
    return f"{option.help} (default: {shown})"


# --- reading options -------------------------------------------------------------------------------------------------


def _from_command_line(given: Mapping[str, Any]) -> Options:
    """Read the options that were given as flags."""
    return {name: _read_flag(_OPTIONS[name], value) for name, value in given.items() if name in _OPTIONS}


def _read_flag(option: _Option, value: Any) -> Any:
    if option.kind is _SWITCH:
        return value
    if option.kind is _STEPS:
        return [_step(text, option.flag) for text in value]
    found = option.kind.from_text(value)
    if found is None:
        raise ConfigError(where=option.flag, expected=f"{option.kind.expected}", got=f"{value!r}")
    return found


def _step(value: Any, where: str) -> Step:
    try:
        return parse_step(value) if isinstance(value, str) else step_from_dict(value)
    except ConfigError as error:
        msg = f"{where}: {error}"
        raise ConfigError(msg) from error


def _from_file(path: str) -> Options:
    """Read a configuration file."""
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"could not read the configuration '{path}' ({error.strerror})"
        raise ConfigError(msg) from error
    except ValueError as error:  # not UTF-8, or not TOML
        msg = f"'{path}' is no TOML: {error}"
        raise ConfigError(msg) from error
    options: Options = {}
    for key, value in values.items():
        option = _option_of(key, path)
        if option.name in options:
            raise ConfigError(where=f"'{path}'", expected=f"{option.name} once", got=f"'{key}' again")
        options[option.name] = _read_entry(option, value, f"'{path}': {key}")
    return options


def _option_of(key: str, path: str) -> _Option:
    name = key.replace("-", "_")
    if name in _OPTIONS:
        return _OPTIONS[name]
    close = difflib.get_close_matches(name, _OPTIONS, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"the options are {', '.join(_OPTIONS)}"
    msg = f"'{path}': there is no option '{key}'; {hint}"
    raise ConfigError(msg)


def _read_entry(option: _Option, value: Any, where: str) -> Any:
    if type(value) not in option.kind.types:
        raise ConfigError(where=where, expected=f"{option.kind.expected}", got=f"{value!r}")
    if option.kind is not _STEPS:
        return value
    return [_step(step, where) for step in value]


def _merged(given: Options, filed: Options) -> Options:
    """Lay the command line over the file; where it chooses otherwise, what only suits the file's choice is dropped."""
    if not given.keys().isdisjoint(("clusters", "dense", "labels")):
        kind = _kind_of(given)
        filed = {name: value for name, value in filed.items() if name not in _SPECIAL or name in _APPLY[kind]}
        filed.pop("clusters", None)
    for name, other in (("segments", "segmentation"), ("segmentation", "segments")):
        if name in given:
            filed = {key: value for key, value in filed.items() if key != other}
    return {**filed, **given}


def _kind_of(options: Options) -> str:
    """Return how clusters are made: as `clusters` says, or as the files do."""
    dense = "dense" in options or pooling_of(options)
    implied = "labels" if "labels" in options else "dense" if dense else "sparse"
    return checked_choice("clusters", options.get("clusters", implied), _REPRESENTATIONS)


def _check_applicable(options: Options) -> None:
    """Raise ConfigError where options contradict each other, or one is missing."""
    if "dense" in options and "labels" in options:
        raise ConfigError(expected="one of --dense and --labels", got="both")
    if pooling_of(options):
        other = next((name for name in ("dense", "labels", "clusters") if name in options), None)
        if other is not None:
            raise ConfigError(expected=f"one of --cluster-by and --{other}", got="both")
    kind = _kind_of(options)
    for name in options:
        if name in _SPECIAL and name not in _APPLY[kind]:
            owners = " or ".join(owner for owner in _REPRESENTATIONS if name in _APPLY[owner])
            msg = f"{_OPTIONS[name].flag} does not apply to {kind} clusters, only to {owners}"
            raise ConfigError(msg)
    if kind != "sparse" and kind not in options and not pooling_of(options):
        msg = f"--clusters {kind} needs --{kind} FILE.npy"
        raise ConfigError(msg)
    if "segments" in options and "segmentation" in options:
        raise ConfigError(expected="one of --segments and --segmentation", got="both")


# --- build -----------------------------------------------------------------------------------------------------------


def build(args: argparse.Namespace) -> None:
    """Run `segmax build`."""
    given = vars(args)
    options = read_options(args)
    if "print_config" in given:
        sys.stdout.write(_to_toml(options, _config(options)))
        return
    inputs, output = _paths(given.get("paths", []))
    start = time.perf_counter()
    with _built(inputs, output, options, encoder_options(args)) as index:
        say(*summary(index, output, time.perf_counter() - start))


def _built(inputs: list[str], output: str, options: Options, of_encoder: Mapping[str, Any]) -> segmax.Index:
    if of_encoder and "encoder" not in options:
        msg = f"--{next(iter(of_encoder)).replace('_', '-')} is an option of a model; name it with --encoder MODEL"
        raise ConfigError(msg)
    arguments = build_arguments(options)
    if "encoder" not in options and "texts" not in options:
        return segmax.build(inputs, path=output, **arguments)
    if options.get("encoder") == "bm25":
        raise ConfigError(
            where="--encoder",
            expected="the BM25 that made the vectors, a folder like docs.bm25 of segmax encode",
            got="'bm25'",
        )
    encoder = load_encoder(options["encoder"], **of_encoder) if "encoder" in options else None
    return from_vectors(inputs, encoder=encoder, texts=options.get("texts"), path=output, **arguments)


def read_options(args: argparse.Namespace) -> Options:
    """Return the options of a build that were given, on the command line or in a file, checked."""
    given = vars(args)
    filed = _from_file(args.config) if "config" in given else {}
    options = _merged(_from_command_line(given), filed)
    if "cluster_by" in given:  # of segmax index
        options["cluster_by"] = checked_choice("--cluster-by", args.cluster_by, CLUSTER_BY)
    _check_applicable(options)
    _config(options)
    _cluster_options(options)
    num_threads(options.get("threads"))
    MemoryLimit(options.get("memory_limit"))
    return options


def pooling_of(options: Options) -> dict[str, Any]:
    """Return the option of an encoder for clusters by its embeddings, if there are to be such."""
    name = options.get("cluster_by", "sparse")
    return {} if name == "sparse" else {"pooling": (name,)}


def build_arguments(options: Options) -> dict[str, Any]:
    """Return what these options are for `segmax.build`; reads the files that they name."""
    clusters: dict[str, Any] = (
        {"cluster_by": options["cluster_by"], "cluster_options": _cluster_options(options)}
        if pooling_of(options)
        else {"clusters": _representation(options)}
    )
    return {
        **clusters,
        "ids": _ids(options["ids"]) if "ids" in options else None,
        "terms": _lines(options["terms"]) if "terms" in options else None,
        "segments": _array(options["segments"], "segment labels") if "segments" in options else None,
        "config": _config(options),
        "overwrite": options.get("overwrite", False),
        **{name: options.get(name) for name in ("threads", "memory_limit", "scratch", "progress")},
    }


def _paths(paths: list[str]) -> tuple[list[str], str]:
    if len(paths) < 2:
        raise ConfigError(
            expected="IN [IN ...] OUT", got=f"{' '.join(paths) or 'nothing'}", hint="see segmax build --help"
        )
    return paths[:-1], paths[-1]


def _config(options: Options) -> BuildConfig:
    values = {name: options[name] for name in BuildConfig().to_dict() if name in options}
    return BuildConfig(**values)


def _cluster_options(options: Options) -> Options:
    """Return what `Sparse` or `Dense` take by keyword, checked."""
    kind = _kind_of(options)
    given = {name: options[name] for name in _cluster_defaults(kind) if name in options}
    if kind == "sparse":
        Sparse(**given)
    elif kind == "dense":
        if "dense_bits" in given:
            given["bits"] = bits = given.pop("dense_bits")
            if bits != 8:
                raise ConfigError(option="dense_bits", expected="8", got=bits)
        Dense(np.zeros((1, 1)), **given)
    return given


def _representation(options: Options) -> Representation:
    kind = _kind_of(options)
    if kind == "labels":
        return Labels(_array(options["labels"], "cluster labels"))
    given = _cluster_options(options)
    return Dense(options["dense"], **given) if kind == "dense" else Sparse(**given)


def _array(path: str, what: str) -> NDArray[Any]:
    """Map an .npy file: a header that promises more than the file holds is an error, not memory."""
    from segmax.io.streams import one_line

    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError, OverflowError, MemoryError, TypeError, SyntaxError) as error:
        reason = getattr(error, "strerror", None) or one_line(error)
        msg = f"expected an .npy file of {what} at '{path}' ({reason})"
        raise InputError(msg) from error


def _ids(path: str) -> Any:
    return _array(path, "ids") if path.endswith(".npy") else _lines(path)


def _lines(path: str) -> list[str]:
    """Read lines of text. Only a line feed ends one: vocabularies hold other characters that Unicode calls breaks."""
    from segmax.io.streams import read_lines

    return [line for _, line in read_lines(Path(path))]


def summary(index: segmax.Index, output: str, seconds: float) -> tuple[str, str]:
    """Return what was built, in two lines."""
    per_posting = f"{index.num_bytes / index.num_postings:.2f}" if index.num_postings else "no"
    return (
        f"built '{output}' in {seconds:,.1f} s: {counted(index.num_docs, 'document')}, "
        f"{counted(index.num_postings, 'posting')}, {counted(index.num_clusters, 'cluster')} x "
        f"{counted(index.num_segments, 'segment')}, {index.bits} bits",
        f"{size_text(index.num_bytes)}, {per_posting} bytes per posting, "
        f"quantization error {index.quantization_error:.2%}",
    )


def _to_toml(options: Options, config: BuildConfig) -> str:
    """Return the effective options as a configuration file; what is not set stands there as a comment."""
    kind = _kind_of(options)
    values = {**_defaults(kind), **options, "pruning": [step_text(step) for step in config.pruning]}
    lines = []
    for group, members in _GROUPS.items():
        lines += ["", f"# {group}"]
        for option in members:
            if option.name in _SPECIAL and option.name not in _APPLY[kind]:
                continue
            if option.name == "segmentation" and "segments" in options:
                continue
            value = values.get(option.name)
            lines.append(f"# {option.name}: {option.unset}" if value is None else f"{option.name} = {_toml(value)}")
    return "\n".join(["# Options of segmax build; read by --config.", *lines, ""])


def _toml(value: Any) -> str:
    """Return a truth value, number, text or list of them as TOML, which writes them as JSON does."""
    return json_text(value)


# --- the parser ------------------------------------------------------------------------------------------------------


# Lines of at most 80 characters: argparse shows these texts as they are.
_BUILD_HELP = """\
Build an index from sparse vectors: .npz files of scipy.sparse.save_npz with a
row per document and a column per term, or any other format that segmax convert
knows, read as a stream in the order given. OUT is a directory, made anew.
"""
_BUILD_EXAMPLES = """\
examples:
  segmax build docs-0.npz docs-1.npz docs.segmax --ids ids.txt --terms vocab.txt
  segmax build docs.npz docs.segmax --dense embeddings.npy --num-clusters 4096 \\
      --pruning mass-share=0.9 --pruning max-postings=100000 --memory-limit 8GiB
  segmax build docs.npz docs.segmax --encoder docs.bm25 --texts corpus.jsonl
  segmax build --bits 16 --print-config > build.toml
  segmax build docs.npz docs.segmax --config build.toml
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax build`."""
    parser = Parser(
        prog="segmax build",
        usage="segmax build [options] IN [IN ...] OUT",
        description=_BUILD_HELP,
        epilog=_BUILD_EXAMPLES,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("paths", nargs="*", metavar="IN ... OUT", help="vectors, then the index to write")
    add_options(parser)
    add_model_options(parser)
    files = parser.add_argument_group("configuration files")
    files.add_argument(
        "--config",
        metavar="FILE.toml",
        help="read options from a file: the same names, as in num_clusters = 512 or pruning = ['top-terms=64']; those "
        "on the command line come first. File names in it are relative to the working directory",
    )
    files.add_argument(
        "--print-config", action="store_true", help="print the options in effect as such a file, and stop"
    )
    return parser


def add_options(parser: argparse.ArgumentParser, leave_out: frozenset[str] = frozenset()) -> None:
    """Add the options of a build, but for some."""
    for title, options in _GROUPS.items():
        group = parser.add_argument_group(title)
        for option in options:
            if option.name not in leave_out:
                _add_option(group, option)


def _add_option(group: argparse._ArgumentGroup, option: _Option) -> None:
    text = _help(option).replace("%", "%%")
    if option.kind is _SWITCH:
        group.add_argument(option.flag, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=text)
    else:
        action = "append" if option.kind is _STEPS else "store"
        group.add_argument(option.flag, dest=option.name, action=action, metavar=option.metavar, help=text)
