"""Make build/test/python, the segmax that pytest loads: the sources, linked, and the extension of the test build.

The environment keeps the release build, which is fast; this one checks preconditions, and is seen by tests alone. Links
are to files, so that tests which walk the package find all of it.
"""

import os
import shutil
from pathlib import Path

from scikit_build_core.build import prepare_metadata_for_build_wheel

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "test"
SOURCE = ROOT / "src" / "segmax"


def main() -> None:
    """Link what is new, and remove the links to what is gone."""
    tested = BUILD / "python"
    (extension,) = BUILD.glob("_core.*so")
    linked = {tested / "segmax" / extension.name: extension}
    for path in SOURCE.rglob("*"):
        if path.is_file() and path.suffix not in (".pyc", ".so"):
            linked[tested / "segmax" / path.relative_to(SOURCE)] = path
    for link in list(tested.rglob("*")):
        if link.is_symlink() and linked.get(link) != link.readlink():
            link.unlink()
    for link, path in linked.items():
        if not link.is_symlink():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    for old in tested.glob("*.dist-info"):
        shutil.rmtree(old)
    os.chdir(ROOT)
    prepare_metadata_for_build_wheel(str(tested))  # versions, requirements and entry points are read from it


if __name__ == "__main__":
    main()
