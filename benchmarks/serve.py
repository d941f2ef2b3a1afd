"""The service, measured: `python -m benchmarks.serve --help`.

Every figure is a ratio or a difference of things that were measured in the same run, in turns, so that a busy machine
slows all of them alike. The *library* is `index.search` in this process. The *floor* is the same server with the same
settings, workers and client, whose application reads the same bodies and answers with constant bytes of the same size
(`benchmarks.serve_floor`): nothing that does any work can be faster. *Plain* is that server, too, with an application
that decodes, searches one by one, encodes, and does nothing else: what the service takes beyond it is its own.

Server and client have a core each where there is one worker. A request's latency is its fastest pass; a throughput is
that of the best pass. Answers are compared with those of the library: ids and scores.

Loads beyond what the service can carry come from an open loop (`benchmarks.load`), which counts latencies from the time
a request was due.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import segmax
from benchmarks import wiki
from benchmarks.live import on_core, timed
from benchmarks.load import Latency, Load, closed_loop, request
from benchmarks.serve_floor import NAME
from benchmarks.serve_overload import kill_a_worker, overload
from benchmarks.serve_table import Row, Table
from benchmarks.servers import Address, Questions, cores, free_port, one_client, server, wiki_index
from segmax.base.system import cpu_name

RESULTS = Path(__file__).parent / "results" / "serve.jsonl"
CONNECTIONS = 32
BATCH = 64
WRK_SCRIPT = """
local requests = {}
function init(args)
  for line in io.lines(args[1]) do
    requests[#requests + 1] = wrk.format("POST", nil, {["Content-Type"] = "application/json"}, line)
  end
end
local at = 0
function request()
  at = at % #requests + 1
  return requests[at]
end
"""


class Bench:
    """What all measurements need."""

    def __init__(self, args: argparse.Namespace, path: Path, questions: Questions) -> None:
        self.args = args
        self.path = path
        self.questions = questions
        self.table = Table()
        self.name = path.name.removesuffix(".segmax")
        self.search_path = f"/v1/indexes/{self.name}/search"
        self.server_core, self.client_core = cores(args.core)

    @contextlib.contextmanager
    def service(self, workers: int, cores: set[int] | None = None) -> Iterator[tuple[Address, int]]:
        """Run the service; return its address and the id of its process."""
        port = free_port()
        command = ["-m", "segmax.cli", "serve", str(self.path), "--port", str(port), "--workers", str(workers)]
        with server([*command, *self.args.options.split()], port, cores) as process:
            wait_until_ready(("127.0.0.1", port), self.questions.requests(self.search_path, port)[0])
            yield ("127.0.0.1", port), process.pid

    @contextlib.contextmanager
    def floor(self, workers: int, cores: set[int] | None = None, *, search: bool = False) -> Iterator[Address]:
        """Run the same server with an application that does nothing, or nothing but the search."""
        port = free_port()
        command = ["-m", "benchmarks.serve_floor", "--port", str(port), "--workers", str(workers)]
        with server([*command, *(["--index", str(self.path)] if search else [])], port, cores):
            wait_until_ready(("127.0.0.1", port), self.questions.requests(self.search_path, port)[0])
            yield "127.0.0.1", port

    @contextlib.contextmanager
    def all_three(self, workers: int, cores: set[int] | None) -> Iterator[dict[str, Address]]:
        """Run the floor, the plain application and the service."""
        with (
            self.floor(workers, cores) as floor,
            self.floor(workers, cores, search=True) as plain,
            self.service(workers, cores) as (address, _),
        ):
            yield {"floor": floor, "plain": plain, "service": address}

    def requests(self, address: Address) -> list[bytes]:
        """Return the searches as requests."""
        return self.questions.requests(self.search_path, address[1])

    def library_ns(self) -> NDArray[np.int64]:
        """Return how long the library takes for each query."""
        search, vectors, k = self.questions.index.search, self.questions.vectors, self.questions.k
        return timed(lambda number: search(vectors[number], k), range(len(vectors)))


def wait_until_ready(address: Address, search: bytes, seconds: float = 60) -> None:
    """Wait until a search is answered with status 200."""
    end = time.monotonic() + seconds
    while True:
        try:
            one_client(address, [search])
        except (OSError, AssertionError):
            if time.monotonic() > end:
                raise
            time.sleep(0.005)
        else:
            return


def busy_seconds() -> tuple[float, float]:
    """Return how long all programs have kept the cores busy, and how long this one and those that it ran have."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    idle = int(fields[3]) + int(fields[4])
    everybody = (sum(map(int, fields[:8])) - idle) / os.sysconf("SC_CLK_TCK")
    return everybody, sum(os.times()[:4])


@contextlib.contextmanager
def watched(table: Table) -> Iterator[None]:
    """Add a row that says how much of the cores other programs used meanwhile."""
    start, (all_before, own_before) = time.perf_counter(), busy_seconds()
    yield
    all_after, own_after = busy_seconds()
    others = max(0.0, all_after - all_before - (own_after - own_before)) / (time.perf_counter() - start)
    table.put(Row("  (used by other programs", "0 cores", f"{others:.2f} cores)", None, {"cores": others}))


def fastest(known: dict[str, NDArray[np.int64]], name: str, took: NDArray[np.int64]) -> None:
    """Keep the fastest time of every request."""
    known[name] = np.minimum(known.get(name, took), took)


# --- one client ------------------------------------------------------------------------------------------------------


def latency(bench: Bench) -> None:
    """One client that waits for every answer, with a plain socket and with `segmax.connect`."""
    took: dict[str, NDArray[np.int64]] = {}
    with bench.all_three(1, bench.server_core) as addresses, on_core(bench.client_core):
        clients = {
            "floor, connect": connect_client(bench, addresses["floor"], NAME, checked=False),
            "service, connect": connect_client(bench, addresses["service"], bench.name, checked=True),
        }
        for _ in range(bench.args.passes):
            fastest(took, "library", bench.library_ns())
            for name, address in addresses.items():
                nanoseconds, answers = one_client(address, bench.requests(address))
                fastest(took, name, nanoseconds)
                if name != "floor":
                    bench.questions.check(answers)
            for name, ask in clients.items():
                fastest(took, name, timed(ask, range(len(bench.questions.vectors))))
    found = {name: Latency.of(nanoseconds) for name, nanoseconds in took.items()}
    put_latency(bench.table, "one client, plain socket", found["service"], found["floor"], found["library"])
    times = found["service"].mean / found["plain"].mean
    shown = f"{times:.2f} (plain {found['plain'].mean:.3f} ms)"
    bench.table.put(Row("  times plain", "", shown, None, found["plain"]._asdict()))
    ours, lowest = found["service, connect"], found["floor, connect"]
    put_latency(bench.table, "one client, segmax.connect", ours, lowest, found["library"])


def put_latency(table: Table, what: str, ours: Latency, floor: Latency, library: Latency) -> None:
    """Add the rows of one kind of client."""
    more, times = ours.mean - library.mean, ours.mean / floor.mean
    figures = {"service": ours._asdict(), "floor": floor._asdict(), "library": library._asdict()}
    table.put(
        Row(what, "", f"{ours.mean:.3f} ms (p50 {ours.p50:.3f}, p99 {ours.p99:.3f})", None, figures),
        Row("  more than index.search", "≤ 0.35 ms", f"{more:.3f} ms (it takes {library.mean:.3f})", more <= 0.35),
        Row("  times the floor", "≤ 1.5", f"{times:.2f} (floor {floor.mean:.3f} ms)", times <= 1.5),
    )


def connect_client(bench: Bench, address: Address, name: str, *, checked: bool) -> Callable[[int], Any]:
    """Return a search by `segmax.connect`, whose answers are checked once for every query, if they are not constant."""
    index = segmax.connect(f"http://127.0.0.1:{address[1]}", index=name)
    vectors, k = bench.questions.vectors, bench.questions.k
    for vector, expected in zip(vectors, bench.questions.found, strict=True):
        found = index.search(vector, k)
        assert not checked or (found.ids, found.scores.tolist()) == (expected.ids, expected.scores.tolist())
    return lambda number: index.search(vectors[number], k)


# --- many clients ----------------------------------------------------------------------------------------------------


def throughput(bench: Bench) -> None:
    """32 connections, each of which waits for its answers."""
    for workers in sorted({1, bench.args.workers}):
        # One worker has a core, and the client the other one. More workers share all cores with the client.
        pinned, client_core = (bench.server_core, bench.client_core) if workers == 1 else (None, None)
        best: dict[str, float] = {}
        refused = 0
        with bench.all_three(workers, pinned) as addresses:
            for _ in range(bench.args.passes):
                for name, address in addresses.items():
                    load = many_clients(bench, address, client_core)
                    if name != "floor":
                        bench.questions.check(load.answers)
                    refused += load.statuses.get(503, 0)
                    best[name] = max(best.get(name, 0.0), load.statuses[200] / load.seconds)
                    if shutil.which("wrk"):
                        key = f"{name}, wrk"
                        best[key] = max(best.get(key, 0.0), wrk(bench, address, client_core))
        for client in ("", ", wrk") if "floor, wrk" in best else ("",):
            put_throughput(bench.table, workers, client, {name: best[f"{name}{client}"] for name in addresses})
        bench.table.put(Row("  refused with 503", "none", f"{refused:,}", refused == 0))


def many_clients(bench: Bench, address: Address, core: int | None) -> Load:
    """Return a closed loop."""
    seconds = bench.args.seconds
    with on_core(core):
        load = closed_loop(address, bench.requests(address), seconds, connections=CONNECTIONS, keep_every=50)
    assert set(load.statuses) <= {200, 503}, load.statuses
    return load


def put_throughput(table: Table, workers: int, client: str, best: dict[str, float]) -> None:
    """Add the rows of one kind of client; the share of plain is not a goal."""
    ours, floor, plain = best["service"], best["floor"], best["plain"]
    shown = f"{ours / floor:.0%}: {ours:,.0f} of {floor:,.0f} requests/s"
    what = f"32 connections, {workers} worker{'s' if workers > 1 else ''}{client}"
    table.put(
        Row(what, "≥ 60 % of floor", shown, ours >= 0.6 * floor, best),
        Row("  of plain", "", f"{ours / plain:.0%} of {plain:,.0f} requests/s"),
    )


def wrk(bench: Bench, address: Address, core: int | None) -> float:
    """Return the requests per second that wrk counts."""
    with tempfile.TemporaryDirectory(prefix="wrk-") as folder:
        script, bodies = Path(folder) / "post.lua", Path(folder) / "bodies.jsonl"
        script.write_text(WRK_SCRIPT)
        bodies.write_bytes(b"\n".join(bench.questions.bodies) + b"\n")
        url = f"http://127.0.0.1:{address[1]}{bench.search_path}"
        seconds = max(1, round(bench.args.seconds))
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(script), url, str(bodies)]
        with on_core(core):
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "Socket errors" not in output, output
    refused = re.search(r"Non-2xx or 3xx responses: ([0-9]+)", output)
    found = re.search(r"([0-9]+) requests in ([0-9.]+)s", output)
    assert found, output
    return (int(found[1]) - int(refused[1] if refused else 0)) / float(found[2])


# --- batches and the start -------------------------------------------------------------------------------------------


def batches(bench: Bench) -> None:
    """Batches of 64 queries by one client, beside `search_batch` with as many threads."""
    questions = bench.questions
    firsts = range(0, len(questions.vectors) - BATCH + 1, BATCH)
    vectors = questions.json_vectors()
    took: dict[str, NDArray[np.int64]] = {}
    with bench.service(1) as (address, _):
        bodies = [{"queries": [{"vector": one} for one in vectors[at : at + BATCH]], "k": questions.k} for at in firsts]
        requests = [
            request(f"{bench.search_path}/batch", json.dumps(body).encode(), port=address[1]) for body in bodies
        ]
        rows = [questions.queries[at : at + BATCH] for at in firsts]
        search = questions.index.search_batch
        for _ in range(2 * bench.args.passes):
            fastest(took, "library", timed(lambda number: search(rows[number], questions.k), range(len(rows))))
            nanoseconds, answers = one_client(address, requests)
            fastest(took, "service", nanoseconds)
    for at, answer in zip(firsts, answers.values(), strict=True):
        for shift, result in enumerate(json.loads(answer)["results"]):
            assert questions.right(at + shift, result["hits"]), f"query {at + shift} of a batch differs"
    library, ours = (BATCH * 1e9 / float(took[name].mean()) for name in ("library", "service"))
    shown = f"{ours / library:.0%}: {ours:,.0f} of {library:,.0f} queries/s"
    figures = {"service": ours, "library": library}
    bench.table.put(Row(f"batches of {BATCH}", "≥ 85 % of library", shown, ours >= 0.85 * library, figures))


def start(bench: Bench) -> None:
    """From the start of the process to the first answer, and how long opening the index takes in a fresh process."""
    seconds = []
    for _ in range(bench.args.passes):
        before = time.perf_counter()
        with bench.service(1):
            seconds.append(time.perf_counter() - before)
    program = (
        "import sys, time, segmax; start = time.perf_counter(); segmax.open(sys.argv[1]).search(([1], [1.0])); "
        "print(time.perf_counter() - start)"
    )
    command = [sys.executable, "-c", program, str(bench.path)]
    opening = min(
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(bench.args.passes)
    )
    found = min(seconds)
    docs = bench.questions.index.num_docs
    bench.table.put(
        Row(f"start to first answer, {docs:,}", "≤ 1.5 s", f"{found:.2f} s", found <= 1.5, {"all": seconds}),
        Row("  of which opening and one search", "≤ 0.5 s", f"{opening:.3f} s", opening <= 0.5),
    )


# --- all of it -------------------------------------------------------------------------------------------------------


SECTIONS: dict[str, Callable[[Bench], None]] = {
    "latency": latency,
    "throughput": throughput,
    "batch": batches,
    "start": start,
    "overload": overload,
    "kill": kill_a_worker,
}


def about(args: argparse.Namespace, bench: Bench) -> dict[str, Any]:
    """Return what a result has to say about its run."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "documents": bench.questions.index.num_docs,
        "queries": len(bench.questions.vectors),
        "passes": args.passes,
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "segmax": segmax.__version__,
        **{package: version(package) for package in ("uvicorn", "uvloop", "httptools", "msgspec", "httpx")},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serve", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--index", type=Path, help="an index of the wiki vectors; built by default")
    parser.add_argument("--queries", type=Path, help="its queries as a scipy .npz; those of --wiki by default")
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument("--count", type=int, default=1000, help="how many of the queries")
    parser.add_argument("--workers", type=int, default=2, help="for throughput beside one worker, overload and kill")
    parser.add_argument("--passes", type=int, default=5, help="the fastest of so many passes counts")
    parser.add_argument("--seconds", type=float, default=3, help="of each pass of a closed loop")
    parser.add_argument("--overload-seconds", type=float, default=30, help="at twice the rate that can be carried")
    parser.add_argument("--core", type=int, help="the core of the server where it has one; the first by default")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="what to measure")
    parser.add_argument("--options", default="", help="more options of segmax serve, in one string")
    parser.add_argument("--output", type=Path, default=RESULTS, help="JSON lines are appended here")
    args = parser.parse_args(arguments)
    with wiki_index(args.index, args.queries, args.wiki) as (path, queries):
        bench = Bench(args, path, Questions(path, queries[: args.count]))
        known = about(args, bench)
        print(f"{known['date']}, {known['cores']} cores of {known['cpu']}, load {known['load']:.2f}")
        for name in args.only:
            with watched(bench.table):
                SECTIONS[name](bench)
    args.output.parent.mkdir(exist_ok=True)
    with args.output.open("a") as lines:
        lines.write(json.dumps({"type": "serve", **known}) + "\n")
        for row in bench.table.rows:
            lines.write(json.dumps({"type": "row", **row._asdict()}) + "\n")


if __name__ == "__main__":
    main()
