"""The options of a build, which the index stores."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, TypedDict

from segmax.base.checks import checked_bool, checked_choice, checked_int
from segmax.base.errors import ConfigError
from segmax.storage.meta import MAX_SEGMENTS
from segmax.vectors.pruning import Step, step_from_dict

SegmentBounds = Literal["levels", "exact"]
Segmentation = Literal["random", "independent", "kmeans"]
DocumentOrder = Literal["similarity", "row"]
SEGMENT_BOUNDS = ("levels", "exact")
SEGMENTATIONS = ("random", "independent", "kmeans")
DOCUMENT_ORDERS = ("similarity", "row")

#: The default size of clusters; docs/building.md has the measurement behind it.
DOCS_PER_CLUSTER = 1024
#: A term has a row of block maxima if that costs at most so many bytes per posting.
_HEAD_RATIO = 8
_COMPACT_HEAD_RATIO = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildConfig:
    """Options of `segmax.build` that decide what the index holds; they are stored with it.

    ==============  ============  =================================================================================
    option          default       meaning
    ==============  ============  =================================================================================
    num_clusters    None          number of clusters; None: one per 1,024 documents (`Labels` have their own number)
    num_segments    8             segments per cluster; maxima of every term in each are stored; 1: none are
    segment_bounds  "levels"      maxima of segments in four bits, or also "exact", as the paper has them: a code each,
                                  which `segmax.paper` uses
    segmentation    "random"      "random": even sizes; "independent": every document draws its segment;
                                  "kmeans": similar documents share a segment (the paper's comparison)
    document_order  "similarity"  documents inside a cluster: similar ones as neighbors, or by "row"
    pruning         ()            steps of static pruning, in order: see `segmax.pruning`
    bits            8             bits per stored weight: 8 or 16
    compact         False         a smaller index for slower searches: block maxima for fewer terms
    calibrate       True          measure the recall of approximate settings, for `target_recall`; collections below
                                  10,000 documents are searched exactly instead
    seed            0             random seed of clusters and segments; the same seed gives the same index
    ==============  ============  =================================================================================

    Examples
    --------
    >>> BuildConfig(num_clusters=512, num_segments=16).num_segments
    16
    """

    num_clusters: int | None = None
    num_segments: int = 8
    segment_bounds: SegmentBounds = "levels"
    segmentation: Segmentation = "random"
    document_order: DocumentOrder = "similarity"
    pruning: tuple[Step, ...] = ()
    bits: int = 8
    compact: bool = False
    calibrate: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_clusters is not None:
            self._set("num_clusters", checked_int("num_clusters", self.num_clusters, 1))
        self._set("num_segments", checked_int("num_segments", self.num_segments, 1, MAX_SEGMENTS))
        checked_choice("segment_bounds", self.segment_bounds, SEGMENT_BOUNDS)
        checked_choice("segmentation", self.segmentation, SEGMENTATIONS)
        checked_choice("document_order", self.document_order, DOCUMENT_ORDERS)
        self._set("pruning", _checked_steps(self.pruning))
        self._set("bits", checked_int("bits", self.bits, 8, 16))
        if self.bits not in (8, 16):
            raise ConfigError(option="bits", expected="8 or 16", got=self.bits)
        checked_bool("compact", self.compact)
        checked_bool("calibrate", self.calibrate)
        self._set("seed", checked_int("seed", self.seed, 0))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # as int or tuple, so that numpy numbers and lists can be stored

    def clusters_for(self, num_docs: int) -> int:
        """Return the number of clusters for a collection of this size."""
        wanted = self.num_clusters or max(1, round(num_docs / DOCS_PER_CLUSTER))
        return min(wanted, num_docs)

    @property
    def head_ratio(self) -> int:
        """How many bytes per posting a row of block maxima may cost."""
        return _COMPACT_HEAD_RATIO if self.compact else _HEAD_RATIO

    def updated(self, options: Mapping[str, Any]) -> BuildConfig:
        """Return a configuration with some options replaced; unknown names are errors.

        Examples
        --------
        >>> BuildConfig(seed=3).updated({"bits": 16}).seed
        3
        """
        check_names(options, _names(), "BuildConfig")
        return dataclasses.replace(self, **options)

    def to_dict(self) -> dict[str, Any]:
        """Return the options as plain values."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if self.segment_bounds == "levels":
            del values["segment_bounds"]  # segmax 0.2 does not know the name
        return {**values, "pruning": [step.to_dict() for step in self.pruning]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BuildConfig:
        """Make a configuration from plain values; unknown names are errors."""
        check_names(values, _names(), "BuildConfig")
        steps = values.get("pruning", ())
        if not isinstance(steps, (list, tuple)):
            raise ConfigError(option="pruning", expected="a list of steps", got=f"{steps!r}")
        return cls(**{**values, "pruning": tuple(step_from_dict(step) for step in steps)})


class BuildOptions(TypedDict, total=False):
    """The options of `BuildConfig` as keywords of `segmax.build` and `segmax.from_texts`."""

    num_clusters: int | None
    num_segments: int
    segment_bounds: SegmentBounds
    segmentation: Segmentation
    document_order: DocumentOrder
    pruning: Step | Iterable[Step]
    bits: int
    compact: bool
    calibrate: bool
    seed: int


def _names() -> list[str]:
    return [field.name for field in dataclasses.fields(BuildConfig)]


def check_names(given: Iterable[str], known: Collection[str], what: str) -> None:
    """Raise ConfigError for a name that is not known, with the one that was probably meant."""
    for name in given:
        if name in known:
            continue
        import difflib  # for this message alone

        meant = difflib.get_close_matches(name, known, n=1)
        if meant:
            raise ConfigError(expected=f"an option of {what}", got=f"'{name}'", hint=f"did you mean '{meant[0]}'?")
        raise ConfigError(expected=f"options of {what} ({', '.join(sorted(known))})", got=f"'{name}'")


def _checked_steps(steps: object) -> tuple[Step, ...]:
    given = (steps,) if isinstance(steps, Step) else tuple(steps) if isinstance(steps, Iterable) else None
    if given is None or not all(isinstance(step, Step) for step in given):
        raise ConfigError(option="pruning", expected="steps such as TopTerms(count=64)", got=f"{steps!r}")
    return given
