"""Judgments and runs: TREC's formats, BEIR's qrels, and the runs of MS MARCO and Seismic."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from segmax.base.checks import parsed_float, parsed_int, shown
from segmax.base.errors import ConfigError, InputError
from segmax.io.irds import downloading, ir_dataset_id, lacking, load_ir_dataset
from segmax.io.read_errors import no_file, reading
from segmax.io.spooled import in_file
from segmax.io.streams import read_lines
from segmax.io.writing import write_whole

Qrels = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]

#: The largest grade, and the least without its sign: trec_eval takes memory in proportion to the largest.
MAX_GRADE = 1_000_000
_GRADE_RANGE = f"from -{MAX_GRADE:,} to {MAX_GRADE:,}"
_BEIR_HEADER = "query-id\tcorpus-id\tscore"
_GRADE_NAMES = frozenset(
    {"score", "grade", "rel", "relevance", "relevancy", "label", "qrel", "rating"}
    | {"judgment", "judgments", "judgement", "judgements"}  # both spellings are common
)


def read_qrels(path: str | os.PathLike[str], split: str = "test") -> Qrels:
    """Read judgments.

    Parameters
    ----------
    path
        A TREC file (query, 0, document, grade), a BEIR file (query, document, grade, under a header or not), plain or
        compressed; or a BEIR folder; or an ir_datasets id.
    split
        Which judgments of a BEIR folder: "train", "dev" or "test".

    Returns
    -------
    dict
        The grade by query and document.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "qrels.txt")
    >>> _ = path.write_text("q1 0 d1 2")
    >>> read_qrels(path)
    {'q1': {'d1': 2}}
    """
    if (name := ir_dataset_id(path)) is not None:
        return _of_ir_dataset(name)
    with in_file(path) as file, reading(file):
        return _read_qrels(file, split)


def _read_qrels(file: Path, split: str) -> Qrels:
    if file.is_dir():
        file = _split_file(file, split)
    qrels: Qrels = {}
    first = True
    for number, fields in _fields(file):
        if len(fields) not in (3, 4):
            raise _wrong(file, number, "query, 0, document, grade, or query, document, grade", fields)
        if not (fields[0] and fields[-2]):
            raise _wrong(file, number, "ids that are not empty", fields)
        if first and fields[-1].strip().lower() in _GRADE_NAMES:
            first = False
            continue  # the header
        first = False
        grade = _whole(fields[-1])
        if grade is None:
            raise _wrong(file, number, "a whole number as grade", fields)
        if abs(grade) > MAX_GRADE:
            raise _wrong(file, number, f"a grade {_GRADE_RANGE}", fields)
        grades = qrels.setdefault(fields[0], {})
        if grades.setdefault(fields[-2], grade) != grade:
            raise _wrong(file, number, f"the grade {grades[fields[-2]]} that a line before gives this document", fields)
    return qrels


def _whole(text: str) -> int | None:
    """Return a whole number, also of "1.0"; None if it is none."""
    if (number := parsed_int(text)) is not None:
        return number
    value = parsed_float(text)
    return int(value) if value is not None and value.is_integer() else None


def checked_grade(grade: object, doc: object) -> int:
    """Return a grade as int; numpy's whole numbers, and floats that are whole, count as such."""
    is_whole = isinstance(grade, (float, np.floating)) and float(grade).is_integer()
    if not is_whole and not isinstance(grade, (int, np.integer)):
        raise InputError(expected="whole numbers as grades", got=f"{shown(grade)} for document {shown(doc)}")
    if abs(grade) > MAX_GRADE:  # type: ignore[arg-type]
        raise InputError(expected=f"grades {_GRADE_RANGE}", got=f"{shown(grade)} for document {shown(doc)}")
    return int(grade)  # type: ignore[call-overload, no-any-return]


def by_document(found: object, query: object, what: str) -> Mapping[Any, Any]:
    """Return what is known about the documents of a query, if it is a mapping."""
    if not isinstance(found, Mapping):
        raise InputError(
            expected=f"{what} as a mapping of document to number for query {shown(query)}", got=shown(found)
        )
    return found


def by_query(found: object, what: str) -> Mapping[Any, Any]:
    """Return what is known about queries, if it is a mapping."""
    if not isinstance(found, Mapping):
        raise InputError(expected=f"{what} as a mapping of query to document to number", got=shown(found))
    return found


def _of_ir_dataset(name: str) -> Qrels:
    dataset = load_ir_dataset(name)
    if not dataset.has_qrels():
        raise lacking(name, "judgments", hint="name one of its subsets")
    qrels: Qrels = {}
    with downloading(name):
        for judged in dataset.qrels_iter():
            qrels.setdefault(str(judged.query_id), {})[str(judged.doc_id)] = checked_grade(
                judged.relevance, judged.doc_id
            )
    return qrels


def _split_file(folder: Path, split: str) -> Path:
    for ending in ("", ".gz", ".zst", ".xz"):
        if (folder / "qrels" / f"{split}.tsv{ending}").is_file():
            return folder / "qrels" / f"{split}.tsv{ending}"
        if (folder / f"qrels.tsv{ending}").is_file():  # a folder with judgments of one kind only
            return folder / f"qrels.tsv{ending}"
    found = sorted(p.name.split(".")[0] for p in (folder / "qrels").glob("*.tsv*"))
    if not found:
        raise no_file(folder / "qrels" / f"{split}.tsv")
    raise InputError(
        where=f"'{folder / 'qrels'}'",
        option="split",
        expected=f"one of {', '.join(found)}",
        got=repr(split),
    )


def write_qrels(
    path: str | os.PathLike[str], qrels: Mapping[str, Mapping[str, int]], *, overwrite: bool = False
) -> None:
    r"""Write judgments: BEIR's way if the name ends in .tsv (or .tsv.gz, ...), else TREC's.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "qrels.txt")
    >>> write_qrels(path, {"q1": {"d1": 2}})
    >>> path.read_text()
    'q1 0 d1 2\n'
    """
    file = Path(path)
    beir = ".tsv" in file.suffixes[-2:]
    lines = [_BEIR_HEADER] if beir else []
    for query, grades in by_query(qrels, "judgments").items():
        for doc, given in by_document(grades, query, "judgments").items():
            grade = checked_grade(given, doc)
            for name in (query, doc):
                _check_name(name, "\t" if beir else None)
            lines.append(f"{query}\t{doc}\t{grade}" if beir else f"{query} 0 {doc} {grade}")
    _write_lines(file, lines, overwrite=overwrite)


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read results: TREC's six columns, MS MARCO's three (query, document, rank), or Seismic's four, the score last.

    Returns
    -------
    dict
        The score by query and document, in the order of the file. Ranks without scores become 1 / rank.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "bm25.run")
    >>> _ = path.write_text("q1 Q0 d1 1 7.5 bm25")
    >>> read_run(path)
    {'q1': {'d1': 7.5}}
    """
    with in_file(path) as file, reading(file):
        return _read_run(file)


def _read_run(file: Path) -> Run:
    run: Run = {}
    for number, fields in _fields(file):
        if len(fields) not in (3, 4, 6):
            raise _wrong(file, number, "query, Q0, document, rank, score, tag", fields)
        doc, score = _result(fields)
        if score is None:
            what = "a whole number from 1 on as rank (scores come in six columns)" if len(fields) == 3 else "a score"
            raise _wrong(file, number, what, fields)
        if not (fields[0] and doc):
            raise _wrong(file, number, "ids that are not empty", fields)
        found = run.setdefault(fields[0], {})
        if doc in found:
            raise _wrong(file, number, "every document of a query once", fields)
        found[doc] = score
    return run


def _result(fields: list[str]) -> tuple[str, float | None]:
    """Return the document and its score; None for what is no score."""
    if len(fields) == 3:
        rank = _whole(fields[2])
        return fields[1], 1 / rank if rank is not None and rank >= 1 else None
    doc, text = (fields[2], fields[4]) if len(fields) == 6 else (fields[1], fields[3])
    return doc, parsed_float(text)


def write_run(
    path: str | os.PathLike[str],
    run: Mapping[str, Mapping[str, float]],
    *,
    tag: str = "segmax",
    format: str = "trec",
    overwrite: bool = False,
) -> None:
    r"""Write results, ranked in the order in which they are given.

    Parameters
    ----------
    path
        The file; compressed if its name ends in .gz, .zst or .xz.
    run
        The score by query and document, best first.
    tag
        The name of the run.
    format
        "trec": query, Q0, document, rank, score, tag; "msmarco": query, document, rank, with tabs.
    overwrite
        Replace a file at `path`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "bm25.run")
    >>> write_run(path, {"q1": {"d1": 7.5}}, tag="bm25")
    >>> path.read_text()
    'q1 Q0 d1 1 7.5 bm25\n'
    """
    if format not in ("trec", "msmarco"):
        raise ConfigError(option="format", expected="'trec' or 'msmarco'", got=f"{format!r}")
    lines: list[str] = []
    for query, found in by_query(run, "results").items():
        scores = _checked_scores(by_document(found, query, "results"))
        if format == "trec":
            lines += run_lines(query, scores, tag)
        else:
            lines += _msmarco_lines(query, scores)
    _write_lines(Path(path), lines, overwrite=overwrite)


def _checked_scores(scores: Mapping[str, object]) -> dict[str, float]:
    """Return scores as floats; refuse what `read_run` refuses."""
    found: dict[str, float] = {}
    for doc, score in scores.items():
        is_number = isinstance(score, numbers.Real) and not isinstance(score, (bool, np.bool_))
        if not is_number or not _is_finite(score):
            raise InputError(expected="finite numbers as scores", got=f"{shown(score)} for document {shown(doc)}")
        found[doc] = float(score)  # type: ignore[arg-type]
    return found


def _is_finite(score: Any) -> bool:
    try:
        return math.isfinite(score)
    except OverflowError:  # a whole number beyond the range of floats
        return False


def run_lines(query: str, scores: Mapping[str, float], tag: str) -> Iterator[str]:
    """Yield the lines of a TREC run about one query, ranked in the order in which results are given."""
    for rank, (doc, score) in enumerate(scores.items(), start=1):
        for name in (query, doc):
            _check_name(name, None)
        yield f"{query} Q0 {doc} {rank} {float(score)!r} {tag}"


def untied(scores: Sequence[float]) -> list[float]:
    """Return scores, best first, with ties lowered by as little as possible, so that they determine the order.

    trec_eval, and what is built on it, looks at scores alone, as 32-bit numbers, and ranks equal ones by the ids of
    the documents. Our order of ties would be lost.

    Examples
    --------
    >>> untied([3.0, 2.0, 2.0])
    [3.0, 2.0, 1.9999998807907104]
    """
    result: list[float] = []
    last = np.float32(np.inf)
    for score in scores:
        narrow = np.float32(score)
        if narrow >= last:
            narrow = np.nextafter(last, np.float32(-np.inf))
            result.append(float(narrow))
        else:
            result.append(float(score))
        last = narrow
    return result


def _msmarco_lines(query: str, scores: Mapping[str, float]) -> Iterator[str]:
    for rank, doc in enumerate(scores, start=1):
        for name in (query, doc):
            _check_name(name, "\t")
        yield f"{query}\t{doc}\t{rank}"


def _fields(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the columns of every line that has some: by tab if there are enough, else by blanks."""
    for number, line in read_lines(path):
        by_tab = line.split("\t")
        fields = [field.strip() for field in by_tab] if len(by_tab) >= 3 else line.split()
        if any(fields):
            yield number, fields


def _wrong(path: Path, number: int, expected: str, fields: list[str]) -> InputError:
    return InputError(where=f"'{path}', line {number}", expected=f"{expected}", got=f"{' '.join(fields)[:80]!r}")


def _check_name(name: str, separator: str | None) -> None:
    """Refuse names that would be read as several columns."""
    if not isinstance(name, str):
        raise InputError(expected="strings as names of queries and documents", got=shown(name))
    parts = name.split(separator)
    if parts != [name] or "\n" in name or name != name.strip():
        what = "blanks" if separator is None else "tabs or line ends"
        raise InputError(expected=f"names without {what} in this format", got=f"{name!r}")


def _write_lines(path: Path, lines: list[str], *, overwrite: bool) -> None:
    with write_whole(path, overwrite=overwrite) as file:
        file.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
