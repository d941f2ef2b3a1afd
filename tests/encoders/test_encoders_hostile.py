"""Encoders that cannot be had: other objects, invalid names, and models that are nowhere; all without torch."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import refused

pytest.importorskip("huggingface_hub")

import huggingface_hub.constants

import segmax
from segmax.base.errors import ConfigError
from segmax.encoders import load_encoder

KINDS = ("", "sparse:", "lexmae:", "unicoil:")


@pytest.mark.parametrize("wrong", [5, None, object(), ["bm25"], {"encoder": "bm25"}, b"bm25"])
def test_other_objects_are_no_encoders(wrong: object) -> None:
    """The message lists what an encoder may be."""
    with refused(ConfigError, expected="an encoder: a name, a folder, an object with encode_documents"):
        segmax.from_texts(["dogs run"], encoder=wrong, progress=False)


def test_invalid_names_are_refused(tmp_path: Path) -> None:
    """Blanks, control characters, zero bytes and very long names are refused without asking anybody."""
    for name in ("a b", "x\0y", "\x1b[2J", "é/ü", "a" * 5000, "a..b", ""):
        with pytest.raises(ConfigError):
            load_encoder(name)


# --- out of reach ---------------------------------------------------------------------------------------------------


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        yield listening.getsockname()[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("network", ["refused", "silent", "no name", "switched off"])
def test_offline_a_missing_model_fails_at_once(
    silent_port: int, network: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No folder, no cache, no hub: said without waiting for anything, for every kind of model."""
    hubs = {"silent": f"http://127.0.0.1:{silent_port}", "no name": "http://hub.invalid"}
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", hubs.get(network, "http://127.0.0.1:9"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", network == "switched off")
    huggingface_hub.close_session()
    why = "HF_HUB_OFFLINE is set" if network == "switched off" else r"the hub \(.*\) could not be reached"
    with refused(ConfigError, expected=f"a model in the cache, because {why}", got="'no/such-model'"):
        load_encoder(f"{kind}no/such-model")


def test_a_missing_model_is_found_out_before_torch_is_loaded(tmp_path: Path) -> None:
    """In a fresh process, where importing torch would take seconds."""
    program = """
import sys
from segmax.encoders import load_encoder
from segmax.base.errors import ConfigError
for kind in ("", "sparse:", "unicoil:", "lexmae:"):
    try:
        load_encoder(kind + "no/such-model")
    except ConfigError as error:
        assert "a model in the cache" in error.expected, error
    else:
        raise AssertionError(kind)
assert not {"torch", "transformers", "sentence_transformers"} & sys.modules.keys()
"""
    surroundings = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=surroundings)
    assert ended.returncode == 0, ended.stderr
