"""A command loads only what it needs; importing segmax and showing help load nothing that takes long."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
import scipy.sparse as sp

import segmax
from segmax.cli.main import COMMANDS

#: Packages that take long to import, or are extras.
HEAVY = ("bm25s", "faiss", "ir_datasets", "ir_measures", "matplotlib", "pandas", "pyarrow", "rich", "scipy")
HEAVY += ("sentence_transformers", "Stemmer", "threadpoolctl", "torch", "transformers", "zstandard")


def loaded(code: str) -> set[str]:
    """The modules that a process has loaded after it ran the code."""
    report = "import json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def helped(*arguments: str) -> str:
    """The code that asks for help."""
    return (
        "import contextlib\nfrom segmax.cli import main\n"
        f"with contextlib.suppress(SystemExit):\n    main({[*arguments, '--help']!r})"
    )


@pytest.mark.parametrize("code", ["import segmax", "import segmax\nsegmax.__version__\ndir(segmax)", helped()])
def test_the_front_door_loads_nothing_heavy(code: str) -> None:
    """Neither `import segmax` nor `segmax --help` loads numpy, let alone more."""
    assert loaded(code).isdisjoint({"numpy", *HEAVY})


def test_help_of_commands_loads_nothing_heavy() -> None:
    """The help of every command needs numpy at most."""
    assert loaded("\n".join(map(helped, COMMANDS))).isdisjoint(HEAVY)


def test_a_search_for_vectors_loads_only_the_search(tmp_path: Path) -> None:
    """Without texts, a search needs neither an encoder nor what builds indexes; of large packages it needs numpy."""
    docs = sp.random(50, 20, 0.3, format="csr", random_state=0)
    segmax.build(docs, path=tmp_path / "docs.segmax").close()
    sp.save_npz(tmp_path / "queries.npz", docs[:3])
    arguments = ["search", str(tmp_path / "docs.segmax"), str(tmp_path / "queries.npz")]
    modules = loaded(f"from segmax.cli import main\nassert main({arguments!r}) == 0")
    assert modules.isdisjoint(HEAVY)
    assert not [name for name in modules if name.startswith(("segmax.building", "segmax.encoders"))]


def test_names_are_loaded_when_used() -> None:
    """A name loads its module, and others stay where they are."""
    modules = loaded("import segmax\nsegmax.ASC(mu=0.9)")
    assert "segmax.search.methods" in modules
    assert "segmax.building.builder" not in modules
    assert "scipy" not in modules


def test_every_name_is_there() -> None:
    """The table of names, the imports for type checkers, and __all__ say the same."""
    tree = ast.parse(Path(segmax.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.asname or alias.name: (str(node.module).removeprefix("segmax."), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    modules = {name for name, (module, _) in typed.items() if module == "segmax"}
    assert modules == set(segmax._MODULES)
    typed = {name: where for name, where in typed.items() if name not in modules}
    typed["open"] = typed.pop("open_searchable")
    assert sorted(typed) == sorted([*segmax.__all__, "open"]) == sorted(segmax._MODULE_OF)
    for name, (module, there) in typed.items():
        assert segmax._MODULE_OF[name] == module
        assert getattr(segmax, name) is getattr(sys.modules[f"segmax.{module}"], there)
    assert set(segmax.__all__) <= set(dir(segmax))
    with pytest.raises(AttributeError, match="module 'segmax' has no attribute 'odd'"):
        _ = segmax.odd  # type: ignore[attr-defined]


def test_star_imports_give_every_name() -> None:
    """As before, `from segmax import *` gives all that is public."""
    loaded(f"from segmax import *\nassert set({segmax.__all__!r}) <= set(globals())")
