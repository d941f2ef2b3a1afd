"""Exceptions. Every one is a SegmaxError and also the builtin that callers expect.

SegmaxError
├── ConfigError (ValueError)              an option has an invalid value
├── InputError (ValueError)               invalid vectors, queries, ids, labels or files
├── FormatError (ValueError)              not an index, a damaged one, or one of a newer version
├── IndexNotFoundError (FileNotFoundError)
├── IndexExistsError (FileExistsError)    the path is taken
├── IndexClosedError (ValueError)         used after close()
├── MissingPackageError (ImportError)     an optional package is not installed, or too old
├── CollectionLockedError (BlockingIOError)  another process or object writes to the collection
├── UnknownIdError (KeyError)             no document has this id
├── ServiceError (ConnectionError)        a service cannot be reached, is overloaded, or answers something else
├── ShardsUnavailableError (ConnectionError)  shards on other machines gave no answer in time
└── WriteError (OSError)                  the index could not be written; nothing was changed
    └── WriterStoppedError                a collection accepts no more changes; the message says what to do

SegmaxWarning (UserWarning)               allowed, but probably not intended
"""

import re
from collections.abc import Callable
from typing import Self

#: An option in a hint: `{overwrite=True}`, `{scratch=...}` or `{num_segments}`.
_OPTION = re.compile(r"\{([a-z_]+)(=[^}]*)?\}")


def _python_name(name: str, value: str) -> str:
    return f"{name}={value}" if value else name


class SegmaxError(Exception):
    """Root of all exceptions that segmax raises on purpose.

    An error is either one message, or made of parts, which programs can read one by one. `str(error)` joins the parts:
    "{where}: expected {option} to be {expected}, got {got}; {hint}".

    Parameters
    ----------
    message
        The whole message, where the parts below do not fit.
    where
        The place of the problem, such as a file and a line.
    option
        The name of the option, as Python spells it.
    expected
        What would have been valid.
    got
        What was given instead.
    hint
        What to do. Write options in braces, `{overwrite=True}`, so that the command line can show them as flags. Never
        put data into a hint, because it may contain braces; put it into `got`.

    Examples
    --------
    >>> error = ConfigError(option="mu", expected="at most 1", got="2")
    >>> error.option, error.got
    ('mu', '2')
    >>> print(error)
    expected mu to be at most 1, got 2
    """

    def __init__(
        self,
        message: str = "",
        *,
        where: object = "",
        option: str = "",
        expected: str = "",
        got: object = "",
        hint: str = "",
    ) -> None:
        self.where = str(where)
        self.option = option
        self.expected = expected
        self.got = str(got)
        self.hint = hint
        self._message = message
        super().__init__(self.text(_python_name))

    def text(self, name: Callable[[str, str], str]) -> str:
        """Return the message. `name` spells an option, given its name and its value ("" for none)."""
        parts = [f"{self.where}: "] if self.where else []
        parts.append(self._message or self._problem(name))
        if self.hint:
            parts.append("; " + _OPTION.sub(lambda found: name(found[1], (found[2] or "=")[1:]), self.hint))
        return "".join(parts)

    def at(self, where: object) -> Self:
        """Return a copy with another place."""
        return type(self)(
            self._message, where=where, option=self.option, expected=self.expected, got=self.got, hint=self.hint
        )

    def edited(self, edit: Callable[[str], str]) -> Self:
        """Return a copy with a function applied to each part, to rename a file for instance."""
        return type(self)(
            edit(self._message),
            where=edit(self.where),
            option=self.option,
            expected=edit(self.expected),
            got=edit(self.got),
            hint=edit(self.hint),
        )

    def _problem(self, name: Callable[[str, str], str]) -> str:
        expected = f"{name(self.option, '')} to be {self.expected}" if self.option else self.expected
        return f"expected {expected}, got {self.got}"


class SegmaxWarning(UserWarning):
    """Something that is allowed but probably not intended, such as an index of empty documents.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax, warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     index = segmax.build(sp.csr_matrix((1, 2)))
    >>> caught[0].category.__name__
    'SegmaxWarning'
    """


class ConfigError(SegmaxError, ValueError):
    """An option has an invalid value, or does not apply.

    Examples
    --------
    >>> import segmax
    >>> try:
    ...     segmax.ASC(mu=2)
    ... except ConfigError as error:
    ...     print(error.option, error.got)
    mu 2
    """


class InputError(SegmaxError, ValueError):
    """Invalid vectors, queries, ids, labels or files.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax
    >>> try:
    ...     segmax.build(sp.csr_matrix([[1.0, -2.0]]))
    ... except InputError as error:
    ...     print(error.got)
    -2.0 in document 0, term 1
    """


class FormatError(SegmaxError, ValueError):
    """The path holds no index, a damaged one, or one of a newer version.

    Examples
    --------
    >>> import segmax, tempfile
    >>> try:
    ...     segmax.open(tempfile.mkdtemp())
    ... except FormatError:
    ...     print("not an index")
    not an index
    """


class IndexNotFoundError(SegmaxError, FileNotFoundError):
    """There is nothing at the path.

    Examples
    --------
    >>> import segmax
    >>> try:
    ...     segmax.open("no-such-index")
    ... except IndexNotFoundError:
    ...     print("build it first")
    build it first
    """


class IndexExistsError(SegmaxError, FileExistsError):
    """The path is taken, and overwriting was not requested.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax, tempfile
    >>> index = segmax.build(sp.csr_matrix([[1, 2]]))
    >>> path = f"{tempfile.mkdtemp()}/docs.segmax"
    >>> index.save(path)
    >>> try:
    ...     index.save(path)
    ... except IndexExistsError:
    ...     index.save(path, overwrite=True)
    """


class IndexClosedError(SegmaxError, ValueError):
    """The index was used after close().

    Examples
    --------
    >>> import scipy.sparse as sp, segmax
    >>> with segmax.build(sp.csr_matrix([[1, 2]])) as index:
    ...     pass
    >>> try:
    ...     index.search({0: 1.0})
    ... except IndexClosedError:
    ...     print("closed")
    closed
    """


class MissingPackageError(SegmaxError, ImportError):
    """An optional package is not installed, or too old; `hint` has the command that installs it.

    Examples
    --------
    >>> from segmax.base.optional import need
    >>> try:
    ...     need("no_such_package", "this example", "plot")
    ... except MissingPackageError as error:
    ...     print(error.hint)
    run: pip install 'segmax[plot]'
    """


class CollectionLockedError(SegmaxError, BlockingIOError):
    """Another process, or another object of this process, writes to the collection.

    Examples
    --------
    >>> import tempfile
    >>> from segmax.collection.lock import WriterLock
    >>> folder = tempfile.mkdtemp()
    >>> with WriterLock(folder):
    ...     try:
    ...         WriterLock(folder)
    ...     except CollectionLockedError:
    ...         print("one writer at a time")
    one writer at a time
    """


class UnknownIdError(SegmaxError, KeyError):
    """No document has this id.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax
    >>> index = segmax.build(sp.csr_matrix([[1, 2]]), ids=["d1"])
    >>> try:
    ...     index.vector("d2")
    ... except UnknownIdError:
    ...     print("no such document")
    no such document
    """

    def __str__(self) -> str:
        """Show the message as it is; KeyError would quote it."""
        return str(self.args[0])


class ServiceError(SegmaxError, ConnectionError):
    """A service cannot be reached, is overloaded, or answers something that is not segmax's HTTP API.

    Examples
    --------
    >>> error = ServiceError("http://localhost:8080 cannot be reached", hint="is the service running?")
    >>> isinstance(error, ConnectionError), str(error)
    (True, 'http://localhost:8080 cannot be reached; is the service running?')
    """


class ShardsUnavailableError(SegmaxError, ConnectionError):
    """Shards of an index on many machines gave no answer in time, and the caller did not allow partial answers.

    Examples
    --------
    >>> error = ShardsUnavailableError("shard 3 gave no answer in 2 s", hint="try again, or open more {replicas}")
    >>> isinstance(error, ConnectionError), str(error)
    (True, 'shard 3 gave no answer in 2 s; try again, or open more replicas')
    """


class WriteError(SegmaxError, OSError):
    """The index could not be written; what was there before is untouched.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax
    >>> try:
    ...     segmax.build(sp.csr_matrix([[1, 2]])).save("/proc/docs.segmax")
    ... except WriteError:
    ...     print("choose another path")
    choose another path
    """


class WriterStoppedError(WriteError):
    """The collection accepts no more changes, and stays readable. The message says what to do.

    Either a write failed in a way that leaves unknown what is on disk: open the collection again, which finds out. Or
    as many documents are in memory as may be, and cannot be written as a part, as on a full disk: make room, and the
    collection accepts changes again by itself.

    Examples
    --------
    >>> error = WriterStoppedError("the log could not be synced", hint="open the collection again")
    >>> isinstance(error, WriteError)
    True
    """


_DAMAGED_HINT = "rebuild it or restore a copy"


#: What to do about a file of a newer version. ("Upgrade segmax" would read like the command `segmax upgrade`.)
NEWER_HINT = "a newer segmax wrote it; run: pip install -U segmax"


def damaged(what: str, path: object = None) -> FormatError:
    """Return the error about an index with impossible content; `path` is where it is, None for one in memory."""
    return FormatError(f"{_damaged_index(path)}: {what}", hint=_DAMAGED_HINT)


def damaged_entry(file: str, expected: str, got: object, path: object) -> FormatError:
    """Return the error about a file of an index that has something else than it should."""
    return FormatError(where=f"{_damaged_index(path)}: {file}", expected=expected, got=got, hint=_DAMAGED_HINT)


def damaged_collection(what: str, path: object) -> FormatError:
    """Return the error about a collection with impossible content."""
    return FormatError(f"the collection '{path}' is damaged: {what}", hint="restore a backup")


def _damaged_index(path: object) -> str:
    return "the index is damaged" if path is None else f"the index '{path}' is damaged"
