"""Print a regular expression of the C++ files that commits of some time changed, and of those that include one of them.

What a header includes counts, too. `python .ci/changed_cpp.py "3 days"`
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Where the compiler looks for what is not beside the file that includes it.
INCLUDED = ("cpp/include", "cpp/src", "cpp/tests", "bindings")


def main() -> int:
    """Print it; that of no file, where none changed."""
    command = ["git", "log", f"--since={sys.argv[1]}", "--name-only", "--pretty=", "--", "cpp", "bindings"]
    changed = set(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())
    sys.stdout.write("|".join(map(re.escape, touched(ROOT, changed))) or "none")
    return 0


def touched(root: Path, changed: set[str]) -> list[str]:
    """Return the files that are compiled and of which something changed: themselves, or what they include."""
    folders = ("cpp/src", "cpp/tests", "bindings")
    paths = [path for folder in folders for path in (root / folder).rglob("*.cpp")]
    return sorted(path.relative_to(root).as_posix() for path in paths if parts_of(root, path) & changed)


def parts_of(root: Path, path: Path) -> set[str]:
    """Return the names of a file, of what it includes, of what that includes, ...; also of what is no longer there."""
    found: set[str] = set()
    left = [path.resolve()]
    while left:
        part = left.pop()
        name = part.relative_to(root).as_posix()
        if name not in found:
            found.add(name)
            left += [
                (folder / included).resolve()
                for included in _includes(part)
                for folder in (part.parent, *(root / known for known in INCLUDED))
            ]
    return found


def _includes(path: Path) -> list[str]:
    """Return what a file includes by a path; nothing if there is no such file."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return re.findall(r'^\s*#\s*include\s*"(.*?)"', text, flags=re.MULTILINE)


if __name__ == "__main__":
    sys.exit(main())
