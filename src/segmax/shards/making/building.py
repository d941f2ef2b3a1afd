"""Building a sharded index: `build` runs all stages in this process, `make` runs them by any executor."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Unpack

from segmax.base.checks import checked_bool, checked_choice, checked_int
from segmax.base.memory import MemoryLimit
from segmax.base.progress import ProgressOption, progress_of
from segmax.building.builder import BuildArguments, effective_config
from segmax.building.resources import scratch_folder
from segmax.search.arguments import num_threads
from segmax.shards.making.finishing import finish
from segmax.shards.making.inputs import InputOptions, Inputs, check_pruning, open_inputs
from segmax.shards.making.journal import building
from segmax.shards.making.plan import Plan
from segmax.shards.making.tasks import Executor, HereExecutor, Workplace
from segmax.shards.manifest import MAX_SHARDS, SHARDINGS, Manifest, Sharding
from segmax.shards.storage import Storage, open_storage
from segmax.storage.config import BuildConfig, check_names
from segmax.storage.meta import FORMAT_VERSION


class ShardedArguments(BuildArguments, InputOptions, total=False):
    """The options of a build that depend on its documents, and those of `segmax.build`."""


def build(
    source: object,
    path: str | os.PathLike[str],
    *,
    shards: int,
    sharding: str = "clusters",
    config: BuildConfig | None = None,
    **options: Unpack[ShardedArguments],
) -> Manifest:
    """Build a sharded index in this process; `segmax.ray.build` builds the same one on many machines.

    If it is interrupted, the same call resumes the build: what is done stays in the folder "building" at the path.

    Parameters
    ----------
    source
        The documents: a file or folder, or a list of them, of vectors, as `segmax.io.open_vectors` reads them, or of
        texts, as `segmax.io.open_texts` does, if there is an encoder. Or a scipy matrix.
    path
        Where to write the index: a folder that does not exist yet, or an address that fsspec knows.
    shards
        How many shards to make. There are fewer if there are fewer clusters, or fewer documents.
    sharding
        "clusters" (similar documents share a shard, so that a query need not ask every shard) or "rows".
    config
        As in `segmax.build`.
    options
        Those of `segmax.build`, the fields of `BuildConfig` among them; `memory_limit` is that of a task. And:

        - `encoder`: what makes vectors of texts, "bm25" or a model, as in `segmax.from_texts`.
        - `keep_texts`: store the texts with the index; True by default.
        - `title`: whether documents are encoded with their titles; True by default.
        - `metadata`: which other members of records to keep, "all" or a list of names, as in `segmax.from_texts`.
        - `ids`, `terms`: those of a matrix, as in `segmax.build`.

    Returns
    -------
    Manifest
        What the index consists of.

    Raises
    ------
    InputError
        Documents are invalid; the message names the file and the row.
    ConfigError
        An option is invalid, or an unfinished build with other inputs or options is at the path.
    IndexExistsError
        The path is taken.
    WriteError
        The index could not be written; there is none at the path then.

    Examples
    --------
    >>> import scipy.sparse as sp, tempfile
    >>> docs = sp.csr_matrix([[1, 0, 2], [0, 3, 1], [2, 0, 1]])
    >>> manifest = build(docs, f"{tempfile.mkdtemp()}/index", shards=2, sharding="rows")
    >>> [shard.num_docs for shard in manifest.shards]
    [2, 1]
    """
    check_names(options, ShardedArguments.__annotations__, "segmax.shards.build")
    request = ShardedRequest(
        storage=open_storage(path),
        inputs=open_inputs(source, options),
        shards=shards,
        sharding=sharding,
        config=effective_config(config, options),
        overwrite=options.get("overwrite", False),
    )
    scratch = options.get("scratch")
    work = Workplace(
        request.storage,
        MemoryLimit(options.get("memory_limit")).limit,
        num_threads(options.get("threads")),
        None if scratch is None else str(scratch_folder(scratch, None)),
    )
    return make(request, work, HereExecutor(), options.get("progress"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardedRequest:
    """What a build is asked for, checked."""

    storage: Storage
    inputs: Inputs
    shards: int
    sharding: str
    config: BuildConfig
    overwrite: bool

    def __post_init__(self) -> None:
        checked_int("shards", self.shards, 1, MAX_SHARDS)
        checked_choice("sharding", self.sharding, SHARDINGS)
        checked_bool("overwrite", self.overwrite)
        check_pruning(self.config.pruning)

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that the index depends on, as plain values."""
        return {
            "inputs": self.inputs.fingerprint(),
            "shards": self.shards,
            "sharding": self.sharding,
            "format": FORMAT_VERSION,
            **self.config.to_dict(),
        }


def make(request: ShardedRequest, work: Workplace, executor: Executor, progress: ProgressOption) -> Manifest:
    """Run all stages by an executor, and return what the index consists of."""
    known, overwrite = request.inputs.is_known, request.overwrite
    with (
        building(request.storage, request.fingerprint(), overwrite=overwrite, resume=known),
        progress_of(progress) as updates,
    ):
        plan = Plan(
            request.inputs.read,
            request.config,
            request.shards,
            by_clusters=request.sharding == "clusters",
            work=work,
            executor=executor,
            progress=updates,
        )
        sharding: Sharding = "clusters" if request.sharding == "clusters" else "rows"
        return plan.run(lambda built: finish(built, request.config, sharding, request.inputs.encoder_entry(), work))
