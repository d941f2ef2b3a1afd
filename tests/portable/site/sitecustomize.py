"""Lets a process on Linux look like one on macOS or Windows, as far as segmax can tell.

Python loads a module of this name first, if it is on its path, so it reaches programs that tests start, too. The
variable SEGMAX_SYSTEM says which system; segmax then takes its ways. Here, what that system has not is taken away, and
what only it has gets a stand-in: a lock of a byte, and the refusal to replace, rename or remove what is in use.
"""

from __future__ import annotations

import importlib
import os

if os.environ.get("SEGMAX_SYSTEM") in ("macos", "windows"):
    # What these modules do with the names that are taken away is decided when they are loaded.
    for module in ("asyncio", "concurrent.futures.thread", "logging", "multiprocessing", "random", "subprocess"):
        importlib.import_module(module)
    importlib.import_module("pretending").start(os.environ["SEGMAX_SYSTEM"])
