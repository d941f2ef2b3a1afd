"""Errors while files are read: every failure becomes an InputError that names the file."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from segmax.base.errors import InputError, SegmaxError


def no_file(path: Path) -> InputError:
    """Return the error about a file that is not there."""
    return InputError(f"there is no file '{path}'", hint="check the path")


def is_empty(path: Path, expected: str) -> InputError:
    """Return the error about a file with nothing in it."""
    return InputError(where=f"'{path}'", expected=expected, got="an empty file", hint="check how it was made")


def no_documents(paths: Iterable[Path]) -> InputError:
    """Return the error about files without documents."""
    names = [f"'{path}'" for path in itertools.islice(paths, 4)]
    where = ", ".join([*names[:3], *(["..."] if len(names) > 3 else [])])
    return InputError(where=where, expected="at least one document", got="an empty collection")


def check_distinct(sources: Sequence[Iterable[Path]]) -> None:
    """Raise if a file belongs to two sources: its documents would come twice."""
    seen: dict[tuple[int, int], Path] = {}
    for files in sources if len(sources) > 1 else ():
        here: dict[tuple[int, int], Path] = {}
        for file in files:
            with reading(file):
                status = file.stat()
            here[status.st_dev, status.st_ino] = file
        again = next((one for one in here if one in seen), None)
        if again is not None:
            other = f", also as '{seen[again]}'" if seen[again] != here[again] else ""
            raise InputError(
                expected="every file once",
                got=f"'{here[again]}' twice{other}, by its own name or by that of a folder",
                hint="name it once",
            )
        seen.update(here)


#: What libraries and Python itself raise over damaged or hostile data, besides OSError.
DAMAGE = (
    ArithmeticError,
    LookupError,
    RuntimeError,  # RecursionError and NotImplementedError are two
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn exceptions of the system and of libraries into InputError, with the name of the file."""
    try:
        yield
    except SegmaxError:
        raise
    except EOFError as error:
        raise _no_stream(path, "one that is cut short: it ends before the end mark") from error
    except (zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
        raise _no_stream(path, f"one that is damaged ({error})") from error
    except OSError as error:
        raise InputError(f"could not be read ({error.strerror or one_line(error)})", where=f"'{path}'") from error
    except (MemoryError, *DAMAGE) as error:
        hint = "copy it again, or check how it was made"
        raise InputError(f"could not be read ({one_line(error)})", where=f"'{path}'", hint=hint) from error


def _no_stream(path: Path, got: str) -> InputError:
    return InputError(where=f"'{path}'", expected="a complete compressed stream", got=got, hint="copy it again")


def one_line(error: Exception) -> str:
    """Return the message of an exception on one line, shortened."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is"
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}..."
