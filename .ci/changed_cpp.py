"""Print a regular expression of the C++ files that commits of some time changed, and of those that include one of them.

`python .ci/changed_cpp.py "3 days"`
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Print it; that of no file, where none changed."""
    command = ["git", "log", f"--since={sys.argv[1]}", "--name-only", "--pretty=", "--", "cpp", "bindings"]
    changed = set(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())
    headers = {re.sub(r"^cpp/(include|src|tests)/", "", name) for name in changed}
    found = []
    for path in [*ROOT.glob("cpp/src/**/*.cpp"), *ROOT.glob("cpp/tests/*.cpp"), *ROOT.glob("bindings/*.cpp")]:
        name = path.relative_to(ROOT).as_posix()
        included = set(re.findall(r'^#include "(.*)"', path.read_text(encoding="utf-8"), flags=re.MULTILINE))
        if name in changed or included & headers:
            found.append(re.escape(name))
    sys.stdout.write("|".join(sorted(found)) or "none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
