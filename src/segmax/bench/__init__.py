"""segmax beside other engines on the same vectors; `segmax bench` is its command.

Vectors come from `material`, engines from `engines`. `race` builds and searches each of them in fresh processes
(`task`), `results` chooses settings on one half of the queries and reports them on the other, `report` shows it.
"""

import os

from segmax import _core
from segmax.base.errors import ConfigError


def check_release_build() -> None:
    """Raise ConfigError where the core has asserts: that build is for tests, which alone may measure it."""
    if _core.has_asserts() and "PYTEST_VERSION" not in os.environ:
        raise ConfigError(
            expected="a release build, to measure it", got="one with asserts", hint="unset PYTHONPATH, or run make demo"
        )
