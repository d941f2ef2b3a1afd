"""Addresses of Ray clusters that cannot be used: an error at once that says why, instead of minutes of waiting."""

from __future__ import annotations

import socket

import pytest

from conftest import refused
from segmax.errors import ConfigError, MissingPackageError, ShardsUnavailableError
from segmax.ray import connecting

pytest.importorskip("ray", exc_type=ImportError)


class FakeRay:
    """Ray that does not connect."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def is_initialized(self) -> bool:
        """Not yet."""
        return False

    def init(self, **_: object) -> None:
        """Fail."""
        raise self._error


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the cluster that other tests are connected to, or the environment names."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(connecting, "ray", lambda: FakeRay(AssertionError("Ray was to connect")))


@pytest.mark.parametrize("address", ["nonsense", "host:port", "host:99999", "ray://", "http://host:80", ":6379", 7])
def test_what_is_no_address(address: str) -> None:
    """Anything but a name that Ray knows, or a host and a port, is refused."""
    with refused(ConfigError, option="address", expected="HOST:PORT"):
        connecting.connect(address)


@pytest.mark.parametrize("prefix", ["", "ray://"])
def test_no_cluster_at_the_address(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing listens there is no cluster, whether the caller or the environment names the address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = f"{prefix}127.0.0.1:{port}"
    with refused(ShardsUnavailableError, message="no Ray cluster at .*127.0.0.1", hint="ray start --head"):
        connecting.connect(address)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with refused(ShardsUnavailableError, message="no Ray cluster at .*127.0.0.1"):
        connecting.connect(None)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("Ray Client requires pip package `ray[client]`."), MissingPackageError),
        (ImportError("No module named 'grpc'"), MissingPackageError),
        (ValueError("malformed"), ConfigError),
        (RuntimeError("version mismatch\nand a long story"), ShardsUnavailableError),
        (ConnectionError("refused"), ShardsUnavailableError),
    ],
    ids=str,
)
def test_what_ray_raises(error: Exception, kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Ray raises becomes one of the documented errors, with the first line of its reason."""
    monkeypatch.setattr(connecting, "ray", lambda: FakeRay(error))
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(kind) as caught:
        connecting.connect(f"ray://127.0.0.1:{server.getsockname()[1]}")
    assert caught.value.__cause__ is error
    assert "long story" not in str(caught.value)
