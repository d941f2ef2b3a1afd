"""The connection of this process to a Ray cluster, which lasts as long as somebody here needs it."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import socket
import threading
from collections.abc import Callable
from typing import Any

from segmax.base.checks import shown
from segmax.base.errors import ConfigError, MissingPackageError, SegmaxError, ShardsUnavailableError
from segmax.base.optional import needing
from segmax.ray.engine import ray

_lock = threading.Lock()
_users = 0  # of a connection that was made here
_open = 0  # who use any connection
#: How long the machine of an address may take to accept a connection; Ray itself tries for minutes.
_CONNECT_S = 2.0
_CLIENT = "ray://"
_NAMES = ("auto", "local")
_INSTALL = "run: pip install 'ray[client]'"
_HOST_AND_PORT = re.compile(r"(?P<host>[^/\s]+):(?P<port>[0-9]{1,5})")


def connect(address: str | None) -> Callable[[], None]:
    """Connect to a cluster, unless this process is connected to one; return what lets go of the connection.

    The connection ends when the last who connected here lets go. One that somebody else made stays.

    Parameters
    ----------
    address
        The address of the cluster. None: the cluster that the process is connected to, or one that Ray finds, or else
        one that is started on this machine.

    Raises
    ------
    ConfigError
        If the address is invalid, or the process is connected to another cluster.
    ShardsUnavailableError
        If there is no cluster at the address.
    MissingPackageError
        If the address needs a part of Ray that is not installed.
    """
    global _users, _open
    with _lock:
        ours = True
        if ray().is_initialized():
            _check_same(address)
            ours = _users > 0
        else:
            _start(address)
            _users = 0
        _users += ours
        _open += 1
        _let_ray_start_itself(False)
        return _Release(ours=ours)


class _Release:
    """Lets go of the connection once, however often it is called."""

    def __init__(self, *, ours: bool) -> None:
        self._done = False
        self._ours = ours

    def __call__(self) -> None:
        global _users, _open
        with _lock:
            if self._done:
                return
            self._done = True
            _users -= self._ours
            _open -= 1
            if self._ours and _users == 0 and ray().is_initialized():
                ray().shutdown()
            if _open == 0:
                _let_ray_start_itself(True)


def _let_ray_start_itself(allowed: bool) -> None:
    """Allow, or not, that a call of Ray without a connection starts a cluster.

    If a program ends Ray while an index is open, the thread that watches the replicas may be about to call it, and
    must not start another one. Ray has no public switch for this that works once it is imported.
    """
    with contextlib.suppress(ImportError):
        hook: Any = importlib.import_module("ray._private.auto_init_hook")
        hook.enable_auto_connect = allowed and os.environ.get("RAY_ENABLE_AUTO_CONNECT", "") != "0"


def _check_same(address: str | None) -> None:
    connected = ray().get_runtime_context().gcs_address
    if address not in (None, "auto", "local", connected):
        hint = "leave {address} out, or call ray.shutdown() first"
        got = f"{address!r}, while this process is connected to {connected!r}"
        raise ConfigError(option="address", expected="that of the connected cluster", got=got, hint=hint)


def _start(address: str | None) -> None:
    wanted = address or os.environ.get("RAY_ADDRESS")  # which Ray takes by itself
    if wanted and wanted not in _NAMES:
        _check_reachable(wanted)
    options = {} if address else {"include_dashboard": False}
    try:
        with needing("'ray[client]'", f"the address {shown(wanted)}"):
            ray().init(address=address, log_to_driver=False, logging_level="WARNING", **options)
    except ConnectionError as error:
        raise _no_cluster(wanted, error) from error
    except (ValueError, RuntimeError) as error:
        raise _unusable(wanted, error) from error


def _check_reachable(address: str) -> None:
    """Raise an error unless a machine accepts connections at the address."""
    found = _HOST_AND_PORT.fullmatch(address.removeprefix(_CLIENT)) if isinstance(address, str) else None
    if found is None or int(found["port"]) > 65535:
        raise ConfigError(
            option="address", expected="'auto', 'local', 'HOST:PORT' or 'ray://HOST:PORT'", got=shown(address)
        )
    try:
        socket.create_connection((found["host"].strip("[]"), int(found["port"])), timeout=_CONNECT_S).close()
    except OSError as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str | None, error: Exception) -> ShardsUnavailableError:
    if address is None:
        return ShardsUnavailableError(f"Ray could not be started or found ({_first_line(error)})")
    msg = f"there is no Ray cluster at {shown(address)} ({_first_line(error)})"
    return ShardsUnavailableError(msg, hint="start one with `ray start --head`, or leave {address} out")


def _unusable(address: str | None, error: Exception) -> SegmaxError:
    """Return the error about an address that Ray does not connect to."""
    if address is None or not isinstance(error, ValueError):
        return _no_cluster(address, error)
    if "ray[client]" in str(error):
        return MissingPackageError(f"the address {shown(address)} needs Ray's client", hint=_INSTALL)
    got = f"{shown(address)} ({_first_line(error)})"
    return ConfigError(option="address", expected="the address of a Ray cluster", got=got)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
