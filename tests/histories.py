"""How tests draw histories of writes: few in the fast suite, many in the slow one."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

from conftest import examples

#: (To make a failure smaller takes minutes: it is left out.)
FAST = settings(
    max_examples=examples(2),
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
SLOW = settings(FAST, max_examples=examples(150))
