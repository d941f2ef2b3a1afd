"""Write the seeds of all targets to the corpus; what was found stays as it is: `python -m tests.fuzz.make_corpus`.

Run this after a change of a format. Seeds are called seed-*; findings have other names.
"""

from __future__ import annotations

from tests.fuzz.native import NATIVE
from tests.fuzz.target import CORPUS
from tests.fuzz.targets import all_targets


def main() -> None:
    """Write all seeds."""
    for name, seeds in {**{one.name: one.seeds for one in all_targets().values()}, **NATIVE}.items():
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("seed-*"):
            old.unlink()
        for file, data in seeds().items():
            (folder / f"seed-{file}").write_bytes(data)


if __name__ == "__main__":
    main()
