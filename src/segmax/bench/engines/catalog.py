"""All engines by name, in the order in which they take turns, and whether they are installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

import segmax
from segmax.base.errors import ConfigError
from segmax.bench.engines.bmp import bmp
from segmax.bench.engines.engine import Engine
from segmax.bench.engines.own import SEGMAX
from segmax.bench.engines.pisa import PISA
from segmax.bench.engines.qdrant import QDRANT
from segmax.bench.engines.scatter_add import SCATTER_ADD
from segmax.bench.engines.seismic import SEISMIC, SEISMIC_GUIDE
from segmax.bench.engines.sindi import SINDI
from segmax.bench.engines.splade_index import SPLADE_INDEX

ENGINES: dict[str, Engine] = {
    "scatter-add": SCATTER_ADD,
    "segmax": SEGMAX,
    "seismic": SEISMIC,
    "seismic-guide": SEISMIC_GUIDE,
    "bmp-32": bmp(32),
    "bmp-8": bmp(8),
    "pisa": PISA,
    **SINDI,
    "splade-index": SPLADE_INDEX,
    "qdrant-edge": QDRANT,
}
#: Names with a hyphen that are not one of several indexes of an engine.
_WHOLE_NAMES = frozenset({"scatter-add", "splade-index", "qdrant-edge"})


def family(name: str) -> str:
    """Return the engine without what tells its indexes apart.

    Examples
    --------
    >>> family("sindi-prune-0.2"), family("bmp-8"), family("splade-index")
    ('sindi', 'bmp', 'splade-index')
    """
    return name if name in _WHOLE_NAMES else name.split("-")[0]


FAMILIES = tuple(dict.fromkeys(map(family, ENGINES)))


def chosen(names: Iterable[str]) -> list[str]:
    """Return the engines of these names, in the order of the table; "sindi" or "bmp" names all indexes of an engine.

    Raises
    ------
    ConfigError
        If there is no engine of a name.

    Examples
    --------
    >>> chosen(["bmp", "segmax"]), chosen(["bmp-8"])
    (['segmax', 'bmp-32', 'bmp-8'], ['bmp-8'])
    """
    wanted = list(names)
    for name in wanted:
        if name not in ENGINES and name not in FAMILIES:
            raise ConfigError(option="engines", expected=f"{', '.join(FAMILIES)}, or one of their indexes", got=name)
    return [name for name in ENGINES if name in wanted or family(name) in wanted]


def what_is_missing(engine: Engine) -> str:
    """Return why an engine cannot run here, as a sentence; empty if it can."""
    for program in engine.programs:
        if shutil.which(program) is None:
            return f"{program} is not installed"
    try:
        for package in (engine.package, *engine.also_needs):
            version_of(package)
    except PackageNotFoundError as error:
        return f"{error.name} is not installed"
    return ""


def version_of(package: str) -> str:
    """Return the version of a package; raise PackageNotFoundError if it is not installed."""
    return segmax.__version__ if package == "segmax" else version(package)
