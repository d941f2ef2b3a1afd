"""Building a sharded index on Ray: the stages of `segmax.shards.making`, their tasks spread over machines."""

from __future__ import annotations

import contextlib
import os
from typing import Unpack

from segmax.base.checks import checked_number
from segmax.base.errors import ConfigError
from segmax.base.memory import MemoryLimit
from segmax.building.builder import effective_config
from segmax.ray.connecting import connect
from segmax.ray.datasets import DatasetInputs, is_dataset
from segmax.ray.executor import RayExecutor, node_share
from segmax.search.arguments import num_threads
from segmax.shards.making.building import ShardedArguments, ShardedRequest, make
from segmax.shards.making.inputs import open_inputs
from segmax.shards.making.tasks import Workplace
from segmax.shards.manifest import Manifest
from segmax.shards.storage import open_storage
from segmax.storage.config import BuildConfig, check_names


def build(
    source: object,
    path: str | os.PathLike[str],
    *,
    shards: int,
    sharding: str = "clusters",
    config: BuildConfig | None = None,
    num_cpus: float = 1,
    address: str | None = None,
    **options: Unpack[ShardedArguments],
) -> Manifest:
    """Build a sharded index on the machines of a Ray cluster.

    The index is the same as that of `segmax.shards.build`, byte for byte, on whatever machines tasks run. A task whose
    machine is lost is done again. If the build itself is interrupted, the same call resumes it.

    Parameters
    ----------
    source
        As in `segmax.shards.build`; all machines have to see the files. Or a Dataset of `ray.data` with a column
        "text", and perhaps "title", if there is an encoder; or with "vector", a mapping of term to weight, or with
        "indices" and "values"; and perhaps with "id". The build of a Dataset is resumed if it reads files that this
        machine sees, and else starts over.
    shards, sharding, config
        As in `segmax.shards.build`.
    path
        Where to write the index: a folder that all machines share, or an address that fsspec knows.
    num_cpus
        The processors that a task reserves, and the threads that it uses. A machine of the cluster has to have as many.
    address
        The address of the Ray cluster. By default the one that this process is connected to, or one that Ray finds, or
        else one that is started on this machine for the time of the build.
    options
        As in `segmax.shards.build`. `memory_limit` is that of a task, and reserved for it; by default it is the share
        of a machine's memory that belongs to its processors. `scratch` is a folder of the machine that runs a task.

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
    >>> manifest = build("corpus.jsonl", "/shared/index", shards=16, encoder="bm25")  # doctest: +SKIP
    >>> manifest.num_docs  # doctest: +SKIP
    8841823
    """
    check_names(options, ShardedArguments.__annotations__, "segmax.ray.build")
    cpus = checked_number("num_cpus", num_cpus)
    if not 0 < cpus <= 1024:
        raise ConfigError(option="num_cpus", expected="above 0, and at most 1,024", got=num_cpus)
    limit = options.get("memory_limit")
    if limit is not None:
        MemoryLimit(limit)  # raises if it is invalid, before anything is started
    scratch, threads = options.get("scratch"), options.get("threads")
    if threads is not None:
        num_threads(threads)  # likewise
    with contextlib.ExitStack() as connection:
        connection.callback(connect(address))
        request = ShardedRequest(
            storage=open_storage(path),
            inputs=DatasetInputs(source, options) if is_dataset(source) else open_inputs(source, options),
            shards=shards,
            sharding=sharding,
            config=effective_config(config, options),
            overwrite=options.get("overwrite", False),
        )
        share, most = node_share(cpus)
        wanted = share if limit is None else MemoryLimit(limit).limit
        threads = max(1, int(cpus)) if threads is None else threads
        work = Workplace(request.storage, wanted, threads, None if scratch is None else os.fspath(scratch))
        executor = RayExecutor(cpus, None if limit is None else min(wanted, most))
        return make(request, work, executor, options.get("progress"))
