"""Make build/test/python, the segmax that pytest loads: the sources, linked, and the extension of the test build.

The environment keeps the release build, which is fast; this one checks preconditions, and is seen by tests alone.
"""

import os
import shutil
from pathlib import Path

from scikit_build_core.build import prepare_metadata_for_build_wheel

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "test"
SOURCE = ROOT / "src" / "segmax"


def main() -> None:
    """Link and write it anew: sources may have come or gone."""
    tested = BUILD / "python"
    shutil.rmtree(tested, ignore_errors=True)
    (tested / "segmax").mkdir(parents=True)
    (extension,) = BUILD.glob("_core.*so")
    for path in (*SOURCE.iterdir(), extension):
        if path.name != "__pycache__" and (path is extension or path.suffix != ".so"):
            (tested / "segmax" / path.name).symlink_to(path)
    os.chdir(ROOT)
    prepare_metadata_for_build_wheel(str(tested))  # versions, requirements and entry points are read from it


if __name__ == "__main__":
    main()
