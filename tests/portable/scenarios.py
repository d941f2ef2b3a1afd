"""What has to work on every system, as a program: `python scenarios.py NAME FOLDER` runs one and prints "done".

`test_portable.py` runs them in a process that pretends to be on another system.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import segmax
from segmax.base import system
from segmax.base.files import open_existing, open_or_create, open_regular, read_at, replacing, write_at
from segmax.errors import CollectionLockedError

TEXTS = {f"d{number}": f"text {number} about {'cats' if number % 2 else 'dogs'}" for number in range(60)}


def best(found: segmax.Searchable, query: str = "cats") -> str:
    """Return the best document."""
    return next(iter(found.search(query, k=1))).id


def other_process(program: str) -> str:
    """Run a program in a process of its own, and return what it prints."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def index(folder: Path) -> None:
    """An index is replaced again and again while it is open and mapped, and old files go once they are free."""
    path = folder / "docs.segmax"
    opened = segmax.from_texts(TEXTS, path=path)
    num_files = len(list(path.iterdir()))
    for _ in range(2):
        segmax.from_texts({"new": "cats and cats"}, path=path, overwrite=True)
    assert best(opened) == "d1"
    assert best(segmax.open(path)) == "new"
    del opened
    segmax.from_texts(TEXTS, path=path, overwrite=True)
    segmax.from_texts(TEXTS, path=path, overwrite=True)
    assert len(list(path.iterdir())) <= 2 * num_files
    assert [entry.name for entry in folder.iterdir()] == ["docs.segmax"]


def collection(folder: Path) -> None:
    """A collection changes, flushes and merges while a reader has it open, and is whole afterwards."""
    path = folder / "docs"
    with segmax.Collection.create(path, encoder="bm25") as made:
        made.add([{"id": id, "text": text} for id, text in TEXTS.items()])
        reader = segmax.Collection.open(path, read_only=True)
        made.delete(["d1"])
        made.compact()
        assert best(made) == "d3"
        reader.refresh()
        assert (best(reader), len(reader)) == ("d3", 59)
        made.backup(folder / "backup")
        program = f"import segmax; segmax.Collection.open({str(path)!r})"
        holder = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr
        assert f"process {os.getpid()}" in holder
        try:
            segmax.Collection.open(path)
        except CollectionLockedError:
            pass
        else:
            raise AssertionError("two writers")
        reader.close()
    with segmax.Collection.open(path) as again:
        again.add([{"id": "new", "text": "cats and more cats"}])
        again.compact()
        assert len(again) == 60
    with segmax.Collection.restore(folder / "backup", folder / "restored") as restored:
        assert len(restored) == 59
    names = {entry.name.split(".")[0] for entry in path.iterdir()}
    assert names == {"manifest", "part", "lattice", "statistics", "log", "writer"}


def files(folder: Path) -> None:
    """Files are written at places, replaced whole, and never through a link."""
    descriptor = open_or_create(folder / "file")
    write_at(descriptor, [b"0123", b"", b"456789"], 0)
    write_at(descriptor, [b"xy"], 4)
    content = bytearray(10)
    assert read_at(descriptor, memoryview(content), 0)
    assert content == b"0123xy6789"
    assert not read_at(descriptor, memoryview(content), 5)
    system.sync_data(descriptor)
    os.close(descriptor)
    with replacing(folder / "file") as file:
        file.write(b"new")
    assert (folder / "file").read_bytes() == b"new"
    (folder / "link").symlink_to(folder / "file")
    for refused in (
        lambda: open_or_create(folder / "link"),
        lambda: open_existing(folder / "link", update=False),
        lambda: open_regular(folder),
        lambda: system.open_new(folder / "link"),
    ):
        try:
            refused()
        except OSError:
            continue
        raise AssertionError("a link or a folder was opened")
    kept = system.readable_scratch(folder)
    kept.file.write(b"text")
    kept.file.flush()
    assert [kept.path.read_bytes(), kept.path.read_bytes()] == [b"text", b"text"]
    kept.close()
    assert sorted(entry.name for entry in folder.iterdir()) == ["file", "link"]


def locks(folder: Path) -> None:
    """A lock keeps out other processes and other openings, ends with its process, and leaves content readable."""
    path = folder / "file"
    path.write_bytes(b"content")
    program = f"""
from pathlib import Path
from segmax.base import system
with Path({str(path)!r}).open("r+b") as file:
    print(system.try_lock(file), file.read())
"""
    with path.open("r+b") as first, path.open("r+b") as second:
        first.seek(3)
        with system.locked(first):
            assert first.tell() == 3
            assert not system.try_lock(second)
            assert other_process(program) == "False b'content'"
        assert system.try_lock(second)
        assert other_process(program) == "False b'content'"
    assert other_process(program) == "True b'content'"
    taken: list[int] = []

    def work(number: int) -> None:
        for _ in range(5):
            with system.locked_folder(folder / "folder"):
                taken.append(number)
                time.sleep(0.001)
                assert taken[-1] == number

    (folder / "folder").mkdir()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 15
    assert sorted(entry.name for entry in folder.iterdir()) == ["file", "folder"]


def commands(folder: Path) -> None:
    """The command line indexes what is piped in and searches it; several workers are refused in one sentence."""
    command = [sys.executable, "-m", "segmax.cli"]
    lines = "".join(f'{{"id": "{id}", "text": "{text}"}}\n' for id, text in TEXTS.items())
    index = str(folder / "docs.segmax")
    subprocess.run([*command, "index", "-", index], input=lines, text=True, check=True, capture_output=True)
    found = subprocess.run([*command, "search", index, "cats"], text=True, check=True, capture_output=True)
    assert "d1" in found.stdout
    refused = subprocess.run([*command, "serve", index, "--workers", "2"], text=True, capture_output=True, check=False)
    assert refused.returncode == 2
    assert "several processes behind one port need Linux" in refused.stderr


def service(folder: Path) -> None:
    """A service of one process answers."""
    import json
    import urllib.request

    index = folder / "docs.segmax"
    segmax.from_texts(TEXTS, path=index)
    program = [sys.executable, "-m", "segmax.cli", "serve", str(index), "--port", "0"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout is not None
            address = next(word for word in served.stdout.readline().split() if word.startswith("http"))
            body = json.dumps({"text": "cats", "k": 1}).encode()
            request = urllib.request.Request(f"{address}/v1/indexes/docs/search", body)
            request.add_header("content-type", "application/json")
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert b'"d1"' in answer.read()
        finally:
            served.terminate()
            served.wait(60)


SCENARIOS = (index, collection, files, locks, commands, service)

if __name__ == "__main__":
    name, place = sys.argv[1:]
    next(scenario for scenario in SCENARIOS if scenario.__name__ == name)(Path(place))
    sys.stdout.write(f"{system.NAME} done\n")
