"""What the tests of the page look at: documents of all kinds, a service of them, and a browser."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import segmax

KEY = "0123456789abcdef-read"

#: Documents that try to be more than text.
HOSTILE: list[dict[str, Any]] = [
    {
        "id": "<img src=x onerror=hacked()>",
        "title": "<script>hacked()</script> hostile title",
        "text": "hostile <b onclick=hacked()>bold</b> \x1b[31mred \u202ereversed\u202c \u200bzero-width \x00nul",
        "lang": "<svg onload=hacked()>",
        "year": 1999,
        "tags": ["\u202eabc", "a\x1bb"],
    },
    {
        "id": "big",
        "title": "hostile " + "W" * 100_000,
        "text": "hostile " + "x" * 1_000_000,
        "lang": "en",
        "year": 1999,
    },
    {
        "id": "zalgo",
        "title": "hostile Z" + "\u0301\u0322\u0335" * 200,
        "text": "hostile a" + "\u0301\u0327" * 500 + " مرحبا بالعالم \u2067 unclosed",
        "lang": "ar",
        "year": 1999,
        "tags": ["عربي"],
    },
]

_SUBJECTS = ["copper", "silver", "noise", "antenna", "diode", "magnet"]
_OBJECTS = ["waveguide", "amplifier", "oscillator", "rectifier", "cavity"]


def _papers() -> list[dict[str, Any]]:
    papers = []
    for number in range(90):
        subject, thing = _SUBJECTS[number % 6], _OBJECTS[number % 5]
        text = (
            f"A {subject} {thing} is described. " + f"The {thing} was measured. " * (number % 4) + "x " * (number % 7)
        )
        papers.append(
            {
                "id": f"p{number}",
                "title": f"The {subject} {thing}, part {number}",
                "text": text + "x " * (number % 7),
                "lang": ("en", "en", "de", "fr")[number % 4],
                "year": 1950 + number % 40,
                "tags": [subject, thing],
            }
        )
    return papers


def build_all(folder: Path) -> dict[str, Path]:
    """Build an index with titles and metadata, a collection, vectors with and without words, and hostile documents."""
    rng = np.random.default_rng(7)
    mask = rng.random((2000, 300)) < 0.05
    vectors = sp.csr_matrix(np.where(mask, rng.integers(1, 255, mask.shape), 0))
    words = [f"word{number}" for number in range(300)]
    paths = {name: folder / f"{name}.segmax" for name in ("papers", "hostile", "vectors", "words")}
    segmax.from_texts(_papers(), path=paths["papers"], metadata="all")
    segmax.from_texts(_papers()[:20] + HOSTILE, path=paths["hostile"], metadata="all")
    segmax.build(vectors, path=paths["vectors"], ids=[2**60 + number for number in range(2000)], num_clusters=40)
    segmax.build(vectors, path=paths["words"], terms=words, num_clusters=1)
    paths["notes"] = folder / "notes"
    with segmax.Collection.create(paths["notes"], encoder="bm25") as notes:
        notes.add([{"id": f"n{n}", "title": f"Note {n}", "text": f"a note about copper {n}"} for n in range(12)])
    return paths


@contextlib.contextmanager
def running(*arguments: str | Path) -> Iterator[str]:
    """Run `segmax serve` on a free port; yield its address, and stop it at the end."""
    source = str(Path(segmax.__file__).parents[1])
    path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "segmax.cli", "serve", *map(str, arguments), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "PYTHONPATH": path}
    ) as process:
        try:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                    break
            else:
                raise AssertionError(f"the service did not start: {''.join(said)}")
            yield found[0]
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
