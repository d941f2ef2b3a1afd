"""How tests draw histories of writes: the fast suite the same few every time, the slow one looks for new ones."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

#: (To make a failure smaller takes minutes: it is left out.)
FAST = settings(
    derandomize=True,
    max_examples=5,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
SLOW = settings(FAST, derandomize=False, max_examples=150)
