"""What a power loss may leave: every state of the files that the calls up to some point allow.

The model is that of POSIX, read as badly as it can be:

- A file has, for sure, what it had when it was last synced. Of every later write, any part may be on disk: all of it,
  nothing, some sectors, the length without the data (zeros), or the length with garbage. Writes reach the disk in any
  order. So do cuts.
- A name (created, renamed, linked, removed) is on disk for sure once its folder was synced. Before that, each change of
  a name may be on disk or not, independent of the others and of the data. A rename is done as a whole or not at all.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from crash.trace import Call

SECTOR = 512
#: What is at every path, None for a folder.
Files = dict[str, bytes | None]


@dataclasses.dataclass(eq=False)
class File:
    """The content of a file: what was synced, and the writes (offset, data) and cuts (size) since."""

    durable: bytes = b""
    pending: list[tuple[int, bytes] | int] = dataclasses.field(default_factory=list)

    def sync(self) -> None:
        self.durable = all_data(self, random.Random(0))
        self.pending.clear()


@dataclasses.dataclass(eq=False)
class Folder:
    """The names in a folder: what every process sees, and what was synced."""

    entries: dict[str, File | Folder] = dataclasses.field(default_factory=dict)
    durable: dict[str, File | Folder] = dataclasses.field(default_factory=dict)


#: A change of names that is done as a whole: (folder, name, what it names now, None if nothing).
NameChange = list[tuple[Folder, str, File | Folder | None]]


class Disk:
    """A folder that gets the calls of a trace, one by one; at the beginning it has what `start` has, all synced."""

    def __init__(self, start: Path | None = None) -> None:
        self.root = Folder()
        self.changes: list[NameChange] = []  # that are not synced
        self._files: dict[int, File] = {}
        if start is not None:
            self._load(start, self.root)

    def _load(self, path: Path, folder: Folder) -> None:
        for entry in path.iterdir():
            node: File | Folder = Folder() if entry.is_dir() else File(entry.read_bytes())
            folder.entries[entry.name] = folder.durable[entry.name] = node
            if isinstance(node, Folder):
                self._load(entry, node)
            else:
                self._files[entry.stat().st_ino] = node

    def apply(self, call: Call) -> None:
        """Do what a call did."""
        if call.type == "C":
            self._files[call.file] = File()
            self._change((*self._place(call.path), self._files[call.file]))
        elif call.type == "M":
            self._change((*self._place(call.path), Folder()))
        elif call.type in "UD":
            self._change((*self._place(call.path), None))
        elif call.type == "R":
            folder, name = self._place(call.path)
            self._change((folder, name, None), (*self._place(call.other_path), folder.entries[name]))
        elif call.type == "L":
            folder, name = self._place(call.path)
            self._change((*self._place(call.other_path), folder.entries[name]))
        elif call.type in "WT" and call.file in self._files:  # else a file without a name
            self._files[call.file].pending.append((call.number, call.text) if call.type == "W" else call.number)
        elif call.type == "S":
            self._sync(call)

    def _place(self, path: str) -> tuple[Folder, str]:
        *folders, name = path.split("/")
        folder = self.root
        for part in folders:
            inner = folder.entries[part]
            assert isinstance(inner, Folder)
            folder = inner
        return folder, name

    def _change(self, *change: tuple[Folder, str, File | Folder | None]) -> None:
        self.changes.append(list(change))
        for folder, name, node in change:
            _set(folder.entries, name, node)

    def _sync(self, call: Call) -> None:
        folder, name = self._place(call.path) if call.path else (None, "")
        node = self.root if folder is None else folder.entries.get(name)
        if not isinstance(node, Folder):
            if call.file in self._files:
                self._files[call.file].sync()
            return
        for change in [change for change in self.changes if any(folder is node for folder, _, _ in change)]:
            self.changes.remove(change)
            for folder, name, content in change:
                _set(folder.durable, name, content)

    def files(self, keeps: Callable[[int], bool], data: Callable[[File], bytes]) -> Files:
        """Return what is on disk with the i-th unsynced change of names where keeps(i), and with `data` in files."""
        names: dict[int, dict[str, File | Folder]] = {}
        for number, change in enumerate(self.changes):
            if keeps(number):
                for folder, name, node in change:
                    _set(names.setdefault(id(folder), dict(folder.durable)), name, node)
        found: Files = {}

        def walk(folder: Folder, prefix: str) -> None:
            for name, node in sorted(names.get(id(folder), folder.durable).items()):
                found[prefix + name] = data(node) if isinstance(node, File) else None
                if isinstance(node, Folder):
                    walk(node, f"{prefix}{name}/")

        walk(self.root, "")
        return found


def _set(entries: dict[str, File | Folder], name: str, node: File | Folder | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


# --- what may be there of unsynced data ------------------------------------------------------------------------------


def _put(content: bytearray, offset: int, data: bytes) -> None:
    content.extend(bytes(max(0, offset + len(data) - len(content))))
    content[offset : offset + len(data)] = data


def _cut(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


Change = Callable[[bytes, bool], bytes | None]


def _with(file: File, change: Change) -> bytes:
    """Apply the pending writes, each as `change` leaves it, given whether it is the last one; None for no write."""
    content = bytearray(file.durable)
    for number, entry in enumerate(file.pending):
        is_last = number == len(file.pending) - 1
        if isinstance(entry, int):
            if change(b"", is_last) is not None:
                _cut(content, entry)
        else:
            data = change(entry[1], is_last)
            if data is not None:
                _put(content, entry[0], data)
    return bytes(content)


def all_data(file: File, draw: random.Random) -> bytes:
    """Everything, as after a crash of the process."""
    return _with(file, lambda data, _: data)


def no_data(file: File, draw: random.Random) -> bytes:
    """Only what was synced."""
    return file.durable


def zeros(file: File, draw: random.Random) -> bytes:
    """The length, but not the data."""
    return _with(file, lambda data, _: bytes(len(data)))


def garbage(file: File, draw: random.Random) -> bytes:
    """The length, and what the blocks had before."""
    return _with(file, lambda data, _: draw.randbytes(len(data)))


def last_only(file: File, draw: random.Random) -> bytes:
    """The last write, not those before."""
    return _with(file, lambda data, is_last: data if is_last else None)


def without_last(file: File, draw: random.Random) -> bytes:
    """All writes but the last one."""
    return _with(file, lambda data, is_last: None if is_last else data)


def half_of_last(file: File, draw: random.Random) -> bytes:
    """All writes, and half of the last one."""
    return _with(file, lambda data, is_last: data[: len(data) // 2] if is_last else data)


def sectors(file: File, draw: random.Random) -> bytes:
    """Some sectors of some writes; others are zeros, garbage or not there."""
    lost = draw.choice(("zeros", "garbage"))
    share = draw.choice((0.2, 0.5, 0.9))

    def change(data: bytes, _: bool) -> bytes | None:
        if draw.random() < 0.3:
            return data if draw.random() < 0.5 else None
        size = SECTOR if len(data) > 2 * SECTOR else max(1, len(data) // 4)
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        other = [bytes(len(piece)) if lost == "zeros" else draw.randbytes(len(piece)) for piece in pieces]
        return b"".join(piece if draw.random() < share else wrong for piece, wrong in zip(pieces, other, strict=True))

    return _with(file, change)


_DATA = (all_data, no_data, zeros, garbage, last_only, without_last, half_of_last, sectors)


# --- states ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Loss:
    """A state that a power loss may leave, after which call of the trace, and what had been acknowledged by then."""

    files: Files
    call: int
    acks: tuple[str, ...]
    how: str

    def write(self, folder: Path) -> None:
        """Make the files in an empty folder."""
        for name, content in self.files.items():
            if content is None:
                (folder / name).mkdir()
            else:
                (folder / name).write_bytes(content)


def losses(
    disk: Disk, calls: Sequence[Call], *, seed: int = 0, num_random: int = 4, share: float = 1.0
) -> Iterator[Loss]:
    """Yield different states that power losses may leave of a disk, at every point of a trace.

    The worst cases are always among them: every kind of data with all names, none, all but the last one and the last
    one only. `num_random` more are drawn at every point, each file and name for itself. `share` is the share of the
    points to look at.
    """
    draw = random.Random(seed)
    acks: list[str] = []
    seen: set[int] = set()
    for number, call in enumerate(calls, 1):
        if call.type == "A":
            acks += call.path.split()
        else:
            disk.apply(call)
        for files, how in _states(disk, draw, num_random) if draw.random() < share else ():
            key = hash((len(acks), tuple(files.items())))  # bytes remember their hash: most files are the same objects
            if key not in seen:
                seen.add(key)
                yield Loss(files, number, tuple(acks), how)


def _states(disk: Disk, draw: random.Random, num_random: int) -> Iterator[tuple[Files, str]]:
    last = len(disk.changes) - 1
    names: dict[str, Callable[[int], bool]] = {
        "all names": lambda number: True,
        "no names": lambda number: False,
        "all names but the last": lambda number: number < last,
        "the last name": lambda number: number == last,
    }
    for which, keeps in names.items():
        for data in _DATA:
            yield disk.files(keeps, lambda file, data=data: data(file, draw)), f"{which}, {data.__name__}"
    for _ in range(num_random):
        kept = {number for number in range(last + 1) if draw.random() < 0.5}
        chosen: dict[int, Callable[[File, random.Random], bytes]] = {}

        def data_of(file: File, chosen: dict[int, Callable[[File, random.Random], bytes]] = chosen) -> bytes:
            return chosen.setdefault(id(file), draw.choice(_DATA))(file, draw)

        yield disk.files(kept.__contains__, data_of), "drawn"
