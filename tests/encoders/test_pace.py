"""What encoders say where they take over a minute. The clock is one of our own."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from segmax.encoders.pace import Pace


class Clock:
    """Goes on by so many seconds per document."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Clock:
    """A clock that stands still until it is moved."""
    made = Clock()
    monkeypatch.setattr("segmax.encoders.pace.perf_counter", made)
    caplog.set_level(logging.INFO, "segmax.encoders")
    return made


def encoded(pace: Pace, clock: Clock, windows: list[int], seconds: float) -> list[int]:
    """Encode windows of documents at a speed; return how many were encoded to measure it."""
    samples = []

    def sample(count: int) -> None:
        samples.append(count)
        clock.now += count * seconds

    for count in windows:
        pace.measure(count, sample)
        with pace.timed():
            clock.now += count * seconds
    return samples


@pytest.mark.parametrize(
    ("windows", "num_docs", "seconds", "said"),
    [
        ([1000], 1000, 0.061, ["model: 1,000 documents take about 1 min; faster: bits"]),
        ([256, 256], 72_000, 0.01, ["model: 72,000 documents take about 12 min; faster: bits"]),
        ([1000], None, 0.09, ["model: the first 1,000 documents take about 2 min; faster: bits"]),
        ([1000], 1000, 0.05, []),
        ([100] * 9, None, 0.1, ["model: documents have taken a minute so far; faster: bits"]),
        ([10] * 9, None, 1.0, ["model: documents have taken a minute so far; faster: bits"]),
        ([10] * 5, None, 1.0, []),
    ],
)
def test_it_is_said_once(
    windows: list[int],
    num_docs: int | None,
    seconds: float,
    said: list[str],
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Before, where the speed of a few documents foretells it; else after a minute; never where it takes less."""
    pace = Pace("model", lambda: "bits")
    pace.num_docs = num_docs
    samples = encoded(pace, clock, windows, seconds)
    assert len(samples) <= 1
    encoded(pace, clock, [], seconds)
    assert caplog.messages == said


def test_nothing_is_said_or_measured_where_nothing_is_faster(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """The note is about what to do."""
    pace = Pace("model", lambda: None)
    assert encoded(pace, clock, [1000, 1000], 1.0) == []
    assert caplog.messages == []


@pytest.mark.deep
def test_what_is_faster(splade: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """8 bits on a CPU, and batches that are not tiny, where they are not used yet and possible."""
    from segmax.encoders import SparseModel

    monkeypatch.setattr("segmax.encoders.transformer.can_run", lambda *_: True)
    eight, whole = "dtype 'int8', several times as fast", SparseModel(splade)
    assert whole._faster() == eight
    assert SparseModel(splade, dtype="float32", batch_size=32)._faster() == eight
    assert SparseModel(splade, dtype="bfloat16", batch_size=1)._faster() == f"{eight}; leave batch_size out"
    whole.has_tried_int8 = True
    assert whole._faster() is None
    monkeypatch.setattr("segmax.encoders.transformer.can_run", lambda *_: False)
    assert SparseModel(splade)._faster() == f"pip install segmax[onnx], and {eight}"
    monkeypatch.setattr("segmax.encoders.sparse_model.parts_of", lambda _: None)
    assert SparseModel(splade)._faster() is None  # the library runs it, and it cannot be exported


@pytest.mark.deep
def test_an_encoder_says_it(splade: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """The first window is measured by a few of its documents, and their vectors are as without the note."""
    from segmax.encoders import SparseModel
    from segmax.encoders.network import Encoded
    from tiny_models import rows

    texts = ["the big cat", "a dog"] * 50
    expected = rows(SparseModel(splade), texts)
    encoder = SparseModel(splade)
    run, sizes = encoder._network.run, []

    def slow(prepared: list[object], **how: object) -> Encoded:
        sizes.append(len(prepared))
        clock.now += len(prepared)
        return run(prepared, **how)  # type: ignore[arg-type]

    encoder._network.run = slow  # type: ignore[method-assign]
    found = rows(encoder, texts)
    assert sizes == [8, 100]
    for first, second in zip(expected[:3], found[:3], strict=True):
        assert first.tolist() == second.tolist()
    rows(encoder, texts)
    (message,) = caplog.messages
    assert message.startswith(f"{splade}: the first 100 documents take about 2 min; faster: ")
