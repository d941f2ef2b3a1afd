"""What the service is built on, chosen by measurement: `python -m benchmarks.serve_stacks --help`.

The same endpoint on every stack: read a POST with a sparse vector of about 24 terms as JSON, answer with ten hits as
JSON. Once without a search, which shows the stack alone, and once with a search of the wiki index in the event loop.
*Constant* reads the body and always answers with the same bytes: no application can be faster on that server.

Every server has one worker, on one core, and the client has another. Latencies are of one client with one connection
that is kept alive, over a plain socket; a request's latency is its fastest pass, and passes take turns between stacks,
so that a busy machine slows all of them alike. Requests per second are those of the best pass of a closed loop with 32
connections (`benchmarks.load`). All answers are compared with those of the library.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import segmax
from benchmarks import wiki
from benchmarks.live import on_core
from benchmarks.load import Latency, closed_loop
from benchmarks.serve_apps import INDEX
from benchmarks.servers import Questions, cores, free_port, one_client, server, wiki_index
from segmax.base.system import cpu_name

RESULTS = Path(__file__).parent / "results" / "serve_stacks.jsonl"
CONNECTIONS = 32


class Stack(NamedTuple):
    """A server and an application."""

    name: str
    server: str
    app: str

    def command(self, port: int) -> list[str]:
        """Return the arguments of Python that start it."""
        target = ["--factory", f"benchmarks.serve_apps:{self.app}", "--port", str(port), "--loop", "uvloop"]
        if self.server == "granian":
            options = ["--interface", "asginl", "--workers", "1", "--runtime-mode", "st", "--no-ws", "--http", "1"]
            return ["-m", "granian", *target, *options, "--log-level", "warning"]
        options = ["--http", "httptools", "--no-access-log", "--lifespan", "off", "--log-level", "warning"]
        return ["-m", "uvicorn", *target, *options]


STACKS = [
    Stack("uvicorn, constant", "uvicorn", "constant"),
    Stack("uvicorn, plain + msgspec", "uvicorn", "plain"),
    Stack("uvicorn, Starlette", "uvicorn", "starlette"),
    Stack("uvicorn, FastAPI", "uvicorn", "fastapi"),
    Stack("uvicorn, Litestar", "uvicorn", "litestar"),
    Stack("granian, constant", "granian", "constant"),
    Stack("granian, plain + msgspec", "granian", "plain"),
]


class Figures(NamedTuple):
    """What was measured of a stack."""

    latency: Latency
    per_second: float


def measure(
    stacks: Sequence[Stack], questions: Questions, index: Path | None, args: argparse.Namespace
) -> dict[str, Figures]:
    """Start all stacks, and measure them in turns."""
    server_core, client_core = cores(args.core)
    fastest: dict[str, NDArray[np.int64]] = {}
    per_second: dict[str, float] = {}
    with contextlib.ExitStack() as running:
        ports = {}
        for stack in stacks:
            ports[stack] = port = free_port()
            known = {INDEX: "" if index is None else str(index)}
            running.enter_context(server(stack.command(port), port, server_core, known))
        for number in range(args.passes):
            for stack, port in ports.items():
                address, requests = ("127.0.0.1", port), questions.requests("/search", port)
                with on_core(client_core):
                    one_client(address, requests[:100])
                    took, answers = one_client(address, requests)
                    load = closed_loop(address, requests, args.seconds, connections=CONNECTIONS)
                assert load.statuses == {200: len(load.status)}, load.statuses
                if index is not None and number == 0 and stack.app != "constant":
                    questions.check(answers)
                fastest[stack.name] = np.minimum(fastest.get(stack.name, took), took)
                per_second[stack.name] = max(per_second.get(stack.name, 0.0), load.rate)
    return {name: Figures(Latency.of(took), per_second[name]) for name, took in fastest.items()}


def table(columns: dict[str, dict[str, Figures]]) -> str:
    """Return all figures as text of at most 80 columns.

    Examples
    --------
    >>> print(table({"no search": {"uvicorn": Figures(Latency(0.1, 0.1, 0.2, 1.0), 9000.0)}}))
                                     no search
    stack                      mean    p50    p99  req/s
    uvicorn                   0.100  0.100  0.200  9,000
    """
    lines = [" " * 24 + "".join(f"{column:^28}" for column in columns)]
    lines.append(f"{'stack':24}" + f"{'mean':>7}{'p50':>7}{'p99':>7}{'req/s':>7}" * len(columns))
    for name in next(iter(columns.values())):
        cells = (columns[column][name] for column in columns)
        figures = (f"{took.mean:7.3f}{took.p50:7.3f}{took.p99:7.3f}{rate:7,.0f}" for took, rate in cells)
        lines.append(f"{name:24}" + "".join(figures))
    return "\n".join(line.rstrip() for line in lines)


def markdown(columns: dict[str, dict[str, Figures]]) -> str:
    """Return all figures as a table of Markdown."""
    lines = ["| | " + " | ".join(f"{column}: ms, mean / p50 / p99 | requests/s" for column in columns) + " |"]
    lines.append("| --- |" + " ---: |" * (2 * len(columns)))
    for name in next(iter(columns.values())):
        cells = []
        for column in columns.values():
            took, rate = column[name]
            cells += [f"{took.mean:.3f} / {took.p50:.3f} / {took.p99:.3f}", f"{rate:,.0f}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def about() -> dict[str, Any]:
    """Return what a result has to say about its run."""
    packages = ("uvicorn", "uvloop", "httptools", "msgspec", "starlette", "fastapi", "litestar", "granian")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "segmax": segmax.__version__,
        **{package: version(package) for package in packages},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serve_stacks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--index", type=Path, help="an index of the wiki vectors; built by default")
    parser.add_argument("--queries", type=Path, help="its queries as a scipy .npz; those of --wiki by default")
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument("--count", type=int, default=1000, help="how many of the queries")
    parser.add_argument("--passes", type=int, default=5, help="the fastest of so many passes counts")
    parser.add_argument("--seconds", type=float, default=2, help="of a closed loop, in each pass")
    parser.add_argument("--core", type=int, help="the core of the servers; the first by default")
    parser.add_argument("--only", nargs="+", help="stacks whose names contain one of these words")
    parser.add_argument("--markdown", type=Path, help="write the table as Markdown to this file")
    parser.add_argument("--output", type=Path, default=RESULTS, help="JSON lines are appended here")
    args = parser.parse_args()
    stacks = [stack for stack in STACKS if not args.only or any(word in stack.name for word in args.only)]
    with wiki_index(args.index, args.queries, args.wiki) as (path, queries):
        questions = Questions(path, queries[: args.count])
        columns = {
            title: measure(stacks, questions, index, args)
            for title, index in (("without a search", None), ("with a search", path))
        }
    print(table(columns))
    if args.markdown:
        args.markdown.write_text(markdown(columns) + "\n")
    args.output.parent.mkdir(exist_ok=True)
    with args.output.open("a") as lines:
        lines.write(json.dumps({"type": "stacks", **about()}) + "\n")
        for title, column in columns.items():
            for name, figures in column.items():
                found = {"latency_ms": figures.latency._asdict(), "per_second": figures.per_second}
                lines.write(json.dumps({"type": "stack", "name": name, "what": title, **found}) + "\n")


if __name__ == "__main__":
    main()
