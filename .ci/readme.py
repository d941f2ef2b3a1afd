"""Run every shell block of the README, in its order, from the root of the clone.

Commands run in bash with the virtual environment of the Makefile first on the path and nothing on standard input; the
first one that fails ends the run. The time of each block is printed.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def shell_blocks(document: Path) -> list[str]:
    """Return the blocks that are marked as shell."""
    return re.findall(r"^```sh\n(.*?)^```$", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def main() -> int:
    """Run them all; return the exit code of the first that fails, or 0."""
    path = os.pathsep.join([str(ROOT / ".venv" / "bin"), os.environ["PATH"]])
    blocks = shell_blocks(ROOT / "README.md")
    for block in blocks:
        command = ["bash", "-euxo", "pipefail", "-c", block]
        start = time.monotonic()
        code = subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL).returncode
        sys.stdout.write(f"== {'; '.join(block.split(chr(10)))[:60]}: {time.monotonic() - start:.0f} s\n")
        sys.stdout.flush()
        if code != 0:
            sys.stderr.write(f"README.md: this block failed with exit code {code}:\n{block}")
            return code
    sys.stdout.write(f"README.md: {len(blocks)} shell blocks ran\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
