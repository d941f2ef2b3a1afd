"""Run one target in Python: `python -m tests.fuzz.one NAME [OPTIONS] PATHS`.

Paths are files to replay, or folders of inputs to start from. Options are those of libFuzzer, which Atheris passes on.
Where Atheris is not installed, inputs are changed at random, without knowing which code they reach.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib.util
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

#: What a target may take beside what Python and the packages have when it starts.
_MEMORY = 1 << 30
_LONGEST = 1 << 16


def main(arguments: Sequence[str]) -> None:
    """Replay files, or fuzz."""
    name, *rest = arguments
    options = dict(one[1:].split("=", 1) for one in rest if one.startswith("-"))
    paths = [Path(one) for one in rest if not one.startswith("-")]
    fuzzes = any(path.is_dir() for path in paths)
    has_atheris = fuzzes and importlib.util.find_spec("atheris") is not None and "plain" not in options
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # its own reserves a GiB at a time
    with contextlib.ExitStack() as stack:
        if has_atheris:
            import atheris

            stack.enter_context(atheris.instrument_imports(include=["segmax"], enable_loader_override=False))
        from tests.fuzz.target import inside_scratch
        from tests.fuzz.targets import find_target

        target = find_target(name)
        target.seeds()  # what it makes for itself is made before anything counts
        for path in sorted((Path(__file__).parent / "corpus" / name).glob("seed-*")):
            target.run(path.read_bytes())

        def run(data: bytes) -> None:
            with inside_scratch():
                target.run(data)

        _limit_memory()
        if not fuzzes:
            for path in paths:
                run(path.read_bytes())
            print(f"replayed {len(paths)} inputs")
        elif has_atheris:
            _fuzz_with_atheris(run, target.mutate, rest)
        else:
            _fuzz_plainly(run, target.mutate, paths, options)


def _limit_memory() -> None:
    """Let allocations beyond the limit fail: then what asks for too much is found by its MemoryError."""
    from segmax.base.system import anonymous_memory

    resource.setrlimit(resource.RLIMIT_DATA, (anonymous_memory() + _MEMORY,) * 2)


def _fuzz_with_atheris(run: Callable[[bytes], None], mutate: Any, arguments: Sequence[str]) -> None:
    import atheris

    def mutated(data: bytes, max_size: int, seed: int) -> bytes:
        # Bytes change as libFuzzer knows how, and what they say as the target knows.
        changed = mutate(data, seed) if seed % 4 else atheris.Mutate(data, max_size)
        return bytes(changed[:max_size])

    own = {} if mutate is None else {"custom_mutator": mutated}
    atheris.Setup(["fuzz", *arguments], run, **own)
    atheris.Fuzz()


def _fuzz_plainly(run: Callable[[bytes], None], mutate: Any, paths: Sequence[Path], options: dict[str, str]) -> None:
    """Change inputs at random until the time is over; the one under way is kept, for the case of a crash."""
    from tests.fuzz.mutation import changed_bytes

    files = [file for path in paths for file in ([path] if path.is_file() else sorted(path.iterdir()))]
    inputs = [file.read_bytes() for file in files] or [b""]
    current = Path(options.get("artifact_prefix", "") + "current")
    end = time.monotonic() + float(options.get("max_total_time", 0))
    rng = random.Random(int.from_bytes(os.urandom(8)))
    runs = 0
    while time.monotonic() < end:
        data = rng.choice(inputs)
        for _ in range(rng.choice((1, 1, 2, 4))):
            own = mutate is not None and rng.random() < 0.75
            data = mutate(data, rng.getrandbits(32)) if own else changed_bytes(data, rng)
        current.write_bytes(data[:_LONGEST])
        faulthandler.dump_traceback_later(float(options.get("timeout", 60)), exit=True)
        run(data[:_LONGEST])
        faulthandler.cancel_dump_traceback_later()
        runs += 1
    current.unlink(missing_ok=True)
    print(f"Done {runs} runs", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
