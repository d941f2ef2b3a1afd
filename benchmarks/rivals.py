"""What building the index of a rival costs: `python -m benchmarks.rivals --help`. `segmax bench` searches them.

Every rival is built in a fresh process, so that memory and threads do not mix. Times are wall-clock times, with the
time of all cores beside them, which says more on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from segmax.bench.engines.bmp import build_bmp
from segmax.bench.engines.catalog import ENGINES
from segmax.bench.engines.engine import Build
from segmax.bench.task import stdout_to_stderr

#: By the name of an engine in `segmax bench`; BMP takes its documents as they come, without an index of segmax.
RIVALS = ("seismic", "pisa", "bmp", "sindi", "splade-index")


def measure(name: str, docs: sp.csr_matrix, folder: Path) -> dict[str, Any]:
    """Build one rival in a fresh process (needs the `rivals` extra) and return what it printed."""
    folder.mkdir(parents=True, exist_ok=True)
    sp.save_npz(folder / "docs.npz", docs, compressed=False)
    program = [sys.executable, "-m", "benchmarks.rivals", name, str(folder)]
    output = subprocess.run(program, check=True, stdout=subprocess.PIPE, text=True).stdout
    row: dict[str, Any] = json.loads(output.splitlines()[-1])
    return row


def build(name: str, docs: sp.csr_matrix, folder: Path) -> Build:
    """Build one rival in this process."""
    return build_bmp(docs, folder) if name == "bmp" else ENGINES[name].build(docs, folder)


def main() -> None:
    """Build one rival on FOLDER/docs.npz and print one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rivals", description=__doc__.splitlines()[0])
    parser.add_argument("rival", choices=RIVALS)
    parser.add_argument("folder", type=Path, help="the folder of docs.npz; the index is written there, too")
    args = parser.parse_args()
    docs = sp.csr_matrix(sp.load_npz(args.folder / "docs.npz"))
    with stdout_to_stderr():
        cost = build(args.rival, docs, args.folder)
    print(json.dumps({**cost._asdict(), "bytes_per_posting": cost.size_bytes / docs.nnz, "cores": os.cpu_count()}))


if __name__ == "__main__":
    main()
