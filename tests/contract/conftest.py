"""The kinds, made once for all tests of a process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from .kinds import House, Opened


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """All of them, each made when it is first asked for."""
    made = House(tmp_path_factory.mktemp("contract"))
    yield made
    made.close()


@pytest.fixture
def opened(house: House, request: pytest.FixtureRequest) -> Opened:
    """One corpus as one kind."""
    corpus, _, kind = request.param.partition("/")
    return house.opened(corpus, kind)


@pytest.fixture
def fresh(house: House, request: pytest.FixtureRequest) -> Iterator[Callable[[Opened], Opened]]:
    """Open the same as another one, which may be closed."""
    with contextlib.ExitStack() as ends:
        yield lambda opened: house.fresh(opened.corpus.name, opened.kind, ends)
