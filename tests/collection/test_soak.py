"""A minute of `make soak`."""

from __future__ import annotations

import pytest

from tests.collection.soak import soak


@pytest.mark.slow
def test_a_minute_of_everything_at_once() -> None:
    """No wrong answer, no crash, no growth of memory; files of old states go away."""
    soak(minutes=1)
