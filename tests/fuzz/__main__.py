"""Fuzz for some time, or replay what was found: `python -m tests.fuzz --seconds 60`, which `make fuzz` calls.

Every target runs in a process of its own and gets an equal share of the time. Where the time is too short for all of
them, others have their turn in the next hour. Inputs that reach new code are kept in build/fuzz/corpus, findings in
build/fuzz/found, with the command that replays each of them.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz.native import NATIVE, program
from tests.fuzz.target import CORPUS
from tests.fuzz.targets import all_targets

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "fuzz"
FOUND = WORK / "found"
#: Less is not worth the start of a process, which takes one to five seconds.
LEAST_SECONDS = 8.0
_START_SECONDS = 3.0
_TIMEOUT = 30  # of one input, on a machine that is busy
_HOUR = 3600
_printing = threading.Lock()


def command_of(name: str, *arguments: object) -> list[str]:
    """Return the command that runs a target."""
    start = [str(program(name))] if name in NATIVE else [sys.executable, "-m", "tests.fuzz.one", name]
    return [*start, *map(str, arguments)]


def shares(names: Sequence[str], seconds: float, jobs: int, hour: int) -> tuple[list[str], float]:
    """Return the targets that have their turn in an hour, and the time of each."""
    fit = max(1, min(len(names), int(seconds * jobs / LEAST_SECONDS)))
    first = hour * fit % len(names)
    turned = [*names[first:], *names[:first]][:fit]
    rounds = -(-fit // jobs)  # processes after each other
    return turned, seconds / rounds


def fuzz(name: str, seconds: float) -> bool:
    """Fuzz a target; return whether nothing was found."""
    own = WORK / "corpus" / name
    own.mkdir(parents=True, exist_ok=True)
    FOUND.mkdir(parents=True, exist_ok=True)
    prefix = FOUND / f"{name}-"
    before = set(FOUND.glob(f"{name}-*"))
    limits = ("-rss_limit_mb=2048", "-malloc_limit_mb=512") if name in NATIVE else ("-rss_limit_mb=4096",)
    options = (f"-max_total_time={max(1, round(seconds))}", f"-timeout={_TIMEOUT}", f"-artifact_prefix={prefix}")
    command = command_of(name, *options, *limits, "-print_final_stats=1", "-verbosity=1", own, CORPUS / name)
    # Leaks are looked for by the tests; here the check would take most of the time.
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"}
    started = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace")
    took = time.monotonic() - started
    current = Path(f"{prefix}current")
    if current.exists():  # what a driver without libFuzzer leaves after a crash
        current.rename(f"{prefix}crash-{hashlib.sha1(current.read_bytes()).hexdigest()[:12]}")
    found = sorted(set(FOUND.glob(f"{name}-*")) - before)
    output = done.stdout + done.stderr
    with _printing:
        print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {name}: {_runs(output)} runs in {took:.0f} s", flush=True)
        if done.returncode != 0:
            print(output[-4000:])
            for path in found:
                print(f"replay it with: {' '.join(command_of(name, path.relative_to(ROOT)))}", flush=True)
    return done.returncode == 0


def _runs(output: str) -> str:
    """Return how many inputs were tried, as both kinds of drivers say it at the end."""
    lines = [line for line in output.splitlines() if line.startswith("Done ")]
    return f"{int(lines[-1].split()[1]):,}" if lines else "?"


def main() -> int:
    """Fuzz, or replay."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the readers and the core.")
    parser.add_argument("--seconds", type=float, default=60, help="how long in all (default: 60)")
    parser.add_argument("--target", action="append", help="only this target; may be repeated")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time (default: the CPUs)")
    parser.add_argument("--list", action="store_true", help="print the names of the targets")
    arguments = parser.parse_args()
    known = [*sorted(all_targets()), *NATIVE]
    if arguments.list:
        print(*known, sep="\n")
        return 0
    unknown = set(arguments.target or ()) - set(known)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}; --list prints all")
    missing = [name for name in NATIVE if not program(name).exists()]
    if missing:
        print(f"skipped {', '.join(missing)}: make fuzz builds them")
    names = [name for name in arguments.target or known if name not in missing]
    names, seconds = shares(names, arguments.seconds, arguments.jobs, int(time.time() // _HOUR))
    with ThreadPoolExecutor(arguments.jobs) as pool:
        good = list(pool.map(lambda name: fuzz(name, max(1.0, seconds - _START_SECONDS)), names))
    print(f"{sum(good)} targets without findings, {len(good) - sum(good)} with")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
