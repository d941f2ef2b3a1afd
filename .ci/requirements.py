"""Print the packages of an extra of pyproject.toml, its own extras followed, a line each: `requirements.py dev`."""

import sys
import tomllib
from pathlib import Path


def packages(project: dict, extra: str) -> list[str]:
    """Return the requirements of one extra, those of segmax itself included."""
    found = []
    for requirement in project["optional-dependencies"][extra]:
        if requirement.startswith("segmax["):
            for inner in requirement[len("segmax[") : -1].split(","):
                found += packages(project, inner)
        else:
            found.append(requirement)
    return found


if __name__ == "__main__":
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    sys.stdout.write("\n".join(project["dependencies"] + packages(project, sys.argv[1])) + "\n")
