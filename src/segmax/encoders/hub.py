"""Whether a model's name leads anywhere: to the hub, or to the cache of what was downloaded from there."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from segmax.base.checks import shown
from segmax.base.errors import ConfigError
from segmax.encoders.packages import need_torch

_PROBE_SECONDS = 1.5
#: One of these is in the cache if a model or a tokenizer was downloaded.
_FIRST_FILES = ("config.json", "modules.json", "tokenizer_config.json", "tokenizer.json")
#: The files that decide how a model is loaded.
_OPTION_FILES = ["*config.json", "modules.json"]
#: The files of a table of query weights, wherever a model has it.
_TABLE_FILES = ["*SparseStaticEmbedding/*", "*_IDF/*", "idf.json", "query_token_weights.txt", "tokenizer.json"]


def must_come_from_cache(name: str, who: str) -> bool:
    """Return whether a model has to be read from the cache, because the hub cannot be reached.

    Left to itself, huggingface_hub asks a dead network again and again for most of a minute.

    Raises
    ------
    ConfigError
        The name cannot be one of the hub, or the hub cannot be reached and the cache does not have the model.
    """
    hub = need_torch("huggingface_hub", who)
    for part in ("constants", "utils"):  # which it loads on first use
        need_torch(f"huggingface_hub.{part}", who)
    try:
        hub.utils.validate_repo_id(name)
    except ValueError as error:
        raise ConfigError(
            where=who,
            expected="a folder that exists, or a name on the hub, such as 'naver/splade-v3'",
            got=shown(name),
        ) from error
    if hub.constants.HF_HUB_OFFLINE:
        why = "HF_HUB_OFFLINE is set"
    elif _answers(hub):
        return False
    else:
        why = f"the hub ({hub.constants.ENDPOINT}) could not be reached"
    if cached_folders(name):
        return True
    raise ConfigError(
        where=who,
        expected=f"a folder that exists, or a model in the cache, because {why}",
        got=shown(name),
        hint="give the folder of a model",
    )


def _answers(hub: Any) -> bool:
    """Return whether the hub answers soon; `HF_HUB_ETAG_TIMEOUT` sets how many seconds it may take."""
    asked = os.environ.get("HF_HUB_ETAG_TIMEOUT")
    seconds = hub.constants.HF_HUB_ETAG_TIMEOUT if asked else _PROBE_SECONDS
    answered = threading.Event()

    def ask() -> None:
        try:
            hub.get_session().head(hub.constants.ENDPOINT, timeout=seconds)
        except Exception:  # whatever the client raises, there was no answer
            return
        answered.set()

    # In a thread of its own: looking up the address has no timeout.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return answered.is_set()


def cached_folders(name: str) -> list[Path]:
    """Return the folders in which the caches keep what was downloaded of a model; none for what is no name."""
    hub = need_torch("huggingface_hub", "a model")
    try:
        cached = [
            hub.try_to_load_from_cache(name, file, cache_dir=cache) for cache in _caches() for file in _FIRST_FILES
        ]
    except ValueError:  # huggingface_hub's error about names is one
        return []
    return list(dict.fromkeys(Path(path).parent for path in cached if isinstance(path, str)))


def fetch_options(name: str, who: str) -> Path:
    """Download the small files that decide how a model is loaded, so that they can be checked first; return where."""
    hub = need_torch("huggingface_hub", who)
    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME") if who == "SparseModel" else None
    return Path(hub.snapshot_download(name, cache_dir=cache, allow_patterns=_OPTION_FILES))


def fetch_table(name: str) -> Path:
    """Download the files of a model that its query side needs if that is a table; return where."""
    hub = need_torch("huggingface_hub", "QueryTable")
    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    return Path(hub.snapshot_download(name, cache_dir=cache, allow_patterns=[*_OPTION_FILES, *_TABLE_FILES]))


def _caches() -> list[str | None]:
    return list(dict.fromkeys([None, os.environ.get("SENTENCE_TRANSFORMERS_HOME")]))
