"""More requests than the service can carry, and a worker that dies: parts of `benchmarks.serve`.

The p99 here is the *usual* one: the median of the p99 of every second. Other programs on the same cores stop a server
for tens of milliseconds, which spoils the p99 of a whole run, but not that of most seconds. Where they stop the load
generator as well, latencies have no verdict.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.live import on_core
from benchmarks.load import LOST, Load, closed_loop, open_loop
from benchmarks.serve_table import Row
from benchmarks.servers import Address

if TYPE_CHECKING:
    from benchmarks.serve import Bench

CONNECTIONS = 256
SHORT = 3.0  # seconds of an attempt
LONGEST_MS = 20.0  # the p99 of a rate that is carried
MOST_LAG_MS = 2.0  # a generator that is later than this measures itself: there is no verdict then


def carried_rate(bench: Bench, address: Address) -> float:
    """Return the highest rate, to 5 %, at which 99 % of the requests are answered, in a usual p99 of 20 ms."""
    requests = bench.requests(address)

    def is_carried(rate: float) -> bool:
        load = open_loop(address, requests, rate, SHORT, connections=CONNECTIONS)
        return load.statuses.get(200, 0) >= 0.99 * len(load.status) and load.usual_p99() <= LONGEST_MS

    high = closed_loop(address, requests, SHORT, connections=32).rate * 1.2
    low = high / 4
    while high > 1.05 * low:
        rate = (low * high) ** 0.5
        if is_carried(rate) or is_carried(rate):  # again, because other programs may have been in the way
            low = rate
        else:
            high = rate
    return low


def described(load: Load) -> str:
    """Return the statuses of a load, and how long answers took."""
    parts = []
    for status, count in load.statuses.items():
        name = {LOST: "lost"}.get(status, str(status))
        parts.append(f"{name}: {count:,}" + (f" (p99 {load.usual_p99(status):.1f} ms)" if status > 0 else ""))
    return ", ".join(parts)


def overload(bench: Bench) -> None:
    """Half of the rate that can be carried, twice that rate, and half of it again."""
    put = bench.table.put
    with bench.service(1, bench.server_core) as (address, _), on_core(bench.client_core):
        requests = bench.requests(address)
        rate = carried_rate(bench, address)
        seconds = bench.args.overload_seconds

        def at(times: float, long: float) -> Load:
            return open_loop(address, requests, times * rate, long, connections=CONNECTIONS, keep_every=50)

        before, beyond, after = at(0.5, seconds / 3), at(2, seconds), at(0.5, seconds / 3)
    for load in (before, beyond, after):
        bench.questions.check(load.answers)
    half, accepted, refused = before.usual_p99(), beyond.usual_p99(), beyond.latency(503)
    is_bounded = accepted <= 3 * half
    is_recovered = set(after.statuses) == {200} and after.usual_p99() <= 2 * half
    figures = {
        name: {"statuses": load.statuses, "p99": load.latency().p99, "usual_p99": load.usual_p99()}
        for name, load in (("before", before), ("beyond", beyond), ("after", after))
    }
    lags = [load.lag_ms for load in (before, beyond, after)]
    is_valid = max(lags) <= MOST_LAG_MS
    good = beyond.statuses.get(200, 0) / beyond.seconds
    put(
        Row("overload: the rate it can carry", "", f"{rate:,.0f} requests/s", None, {"rate": rate, **figures}),
        Row("  half of it", "", described(before)),
        Row(f"  twice, for {seconds:g} s", "only 200 and 503", described(beyond), set(beyond.statuses) <= {200, 503}),
        Row("  p99 of accepted ones", "≤ 3x half load", f"{accepted / half:.1f}x", is_bounded if is_valid else None),
        Row("  answered per second", "", f"{good:,.0f}, {good / rate:.0%} of what it can carry"),
        Row("  503: p50, p99", "fast", f"{refused.p50:.1f}, {beyond.usual_p99(503):.1f} ms"),
        Row("  half of it again", "as before", described(after), is_recovered if is_valid else None),
        Row(
            "  generator late by (p99)", f"≤ {MOST_LAG_MS:g} ms",
            ", ".join(f"{lag:.2f}" for lag in lags) + (" ms" if is_valid else " ms: disturbed, no verdict"),
            is_valid, {"lag_ms": lags},
        ),
    )  # fmt: skip


def children(pid: int) -> set[int]:
    """Return the processes that a process started."""
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def connections_of(pid: int, port: int) -> int:
    """Return how many connections to a port a process has open."""
    inodes = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "01" and int(fields[1].split(":")[1], 16) == port:  # established, and on the server's side
            inodes.add(f"socket:[{fields[9]}]")
    links = Path(f"/proc/{pid}/fd").iterdir()
    return sum(str(link.readlink()) in inodes for link in links)


def kill_a_worker(bench: Bench) -> None:
    """Kill a worker under load: it is replaced, and what is lost was its own."""
    with bench.service(max(2, bench.args.workers)) as (address, pid):
        requests = bench.requests(address)
        rate = closed_loop(address, requests, SHORT, connections=32).rate / 2
        before = children(pid)
        victim = max(before)
        held: list[int] = []
        replaced: list[float] = []

        def kill() -> None:
            held.append(connections_of(victim, address[1]))
            os.kill(victim, signal.SIGKILL)
            start = time.monotonic()
            while time.monotonic() < start + 10 and len(children(pid) - {victim}) < len(before):
                time.sleep(0.005)
            replaced.append(time.monotonic() - start)

        timer = threading.Timer(2.0, kill)
        timer.start()
        load = open_loop(address, requests, rate, 8.0, connections=64, keep_every=50)
        timer.join()
        bench.questions.check(load.answers)
        after = children(pid)
    lost = load.statuses.get(LOST, 0)
    # A connection carries one request at a time. One that was due a second after the kill is not the victim's.
    late = int(((load.status == LOST) & (load.due_ns > 3e9)).sum())
    figures = {"rate": rate, "statuses": load.statuses, "held": held[0], "late": late}
    put = bench.table.put
    put(
        Row(f"kill -9 a worker, {rate:,.0f} requests/s", "only 200 and 503", described(load),
            set(load.statuses) <= {LOST, 200, 503}, figures),
        Row("  lost, of its connections", "only its own", f"{lost} of {held[0]}; {late} later than 1 s",
            lost <= held[0] and late == 0),
        Row("  replaced", "yes", f"after {replaced[0]:.2f} s", len(after) == len(before) and victim not in after),
    )  # fmt: skip
