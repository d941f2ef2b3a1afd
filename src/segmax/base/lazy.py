"""Modules that are loaded when they are first used, because they take long to import."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    """Stands for a module: its first use loads the module, and what was used once is kept."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


#: scipy.sparse, which takes longer to import than all of segmax. Where it is used:
#: `if TYPE_CHECKING: import scipy.sparse as sp`, `else: from segmax.base.lazy import scipy_sparse as sp`.
scipy_sparse = _Later("scipy.sparse")
