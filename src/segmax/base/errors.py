"""Exceptions. Every one is a SegmaxError and also the builtin that callers expect.

SegmaxError
├── ConfigError (ValueError)              an option that cannot be
├── InputError (ValueError)               vectors, queries, ids or labels that cannot be used
├── FormatError (ValueError)              not an index, a damaged one, or one of a newer version
├── IndexNotFoundError (FileNotFoundError)
├── IndexExistsError (FileExistsError)    the path is taken
├── IndexClosedError (ValueError)         used after close()
├── UnknownIdError (KeyError)             no document has this id
└── WriteError (OSError)                  the index could not be written; nothing was changed

SegmaxWarning (UserWarning)               what is allowed and probably not meant
"""


class SegmaxError(Exception):
    """Root of all exceptions that segmax raises on purpose."""


class SegmaxWarning(UserWarning):
    """Something that is allowed and probably not meant, such as an index of empty documents."""


class ConfigError(SegmaxError, ValueError):
    """An option has a value that cannot be, or does not apply."""


class InputError(SegmaxError, ValueError):
    """Vectors, queries, ids or labels that cannot be used."""


class FormatError(SegmaxError, ValueError):
    """The path holds no index, a damaged one, or one of a newer version."""


class IndexNotFoundError(SegmaxError, FileNotFoundError):
    """There is nothing at the path."""


class IndexExistsError(SegmaxError, FileExistsError):
    """The path is taken and overwriting was not asked for."""


class IndexClosedError(SegmaxError, ValueError):
    """The index was used after close()."""


class UnknownIdError(SegmaxError, KeyError):
    """No document has this id."""

    def __str__(self) -> str:
        """Show the message as it is; KeyError would quote it."""
        return str(self.args[0])


class WriteError(SegmaxError, OSError):
    """The index could not be written; what was there before is untouched."""


def damaged(what: str, path: object = None) -> FormatError:
    """Return the error about an index with impossible content; `path` is where it is, None for one in memory."""
    index = "the index" if path is None else f"the index '{path}'"
    return FormatError(f"{index} is damaged: {what}; rebuild it or restore a copy")
