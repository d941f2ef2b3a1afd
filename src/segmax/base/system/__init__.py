"""The one door to what differs between systems: locks, signals, syncing, flags of files, memory, cores.

`portable.py` has what works anywhere, `posix.py` what Linux and macOS share, and each system a module of its own; what
is imported last wins. Nothing else in segmax imports `fcntl` or `signal`, or reads /proc and /sys. Standard library
only, because everything imports it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from segmax.base.system.portable import *  # noqa: F403

_NAMES = {"linux": "linux", "win32": "windows"}
#: The system whose ways are taken: this one, or the one that a test asks for by the variable (tests/portable).
NAME = os.environ.get("SEGMAX_SYSTEM") or _NAMES.get(sys.platform, "macos")

if TYPE_CHECKING or NAME == "linux":
    from segmax.base.system.linux import *  # noqa: F403
    from segmax.base.system.posix import *  # noqa: F403
elif NAME == "windows":
    from segmax.base.system.windows import *  # noqa: F403
else:
    from segmax.base.system.posix import *  # noqa: F403, I001
    from segmax.base.system.macos import *  # noqa: F403
