"""The connection of this process to a Ray cluster, which lasts as long as somebody here needs it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from segmax.base.errors import ConfigError, ShardsUnavailableError
from segmax.ray.engine import ray

_lock = threading.Lock()
_users = 0  # of a connection that was made here


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
        If the process is connected to another cluster.
    ShardsUnavailableError
        If there is no cluster at the address.
    """
    global _users
    with _lock:
        if ray().is_initialized():
            _check_same(address)
            if _users == 0:
                return lambda: None
        else:
            _start(address)
            _users = 0
        _users += 1
        return _Release()


class _Release:
    """Lets go of the connection once, however often it is called."""

    def __init__(self) -> None:
        self._done = False

    def __call__(self) -> None:
        global _users
        with _lock:
            if self._done:
                return
            self._done = True
            _users -= 1
            if _users == 0 and ray().is_initialized():
                ray().shutdown()


def _check_same(address: str | None) -> None:
    connected = ray().get_runtime_context().gcs_address
    if address not in (None, "auto", "local", connected):
        hint = "leave {address} out, or call ray.shutdown() first"
        got = f"{address!r}, while this process is connected to {connected!r}"
        raise ConfigError(option="address", expected="that of the connected cluster", got=got, hint=hint)


def _start(address: str | None) -> None:
    options = {} if address else {"include_dashboard": False}
    try:
        ray().init(address=address, log_to_driver=False, logging_level="WARNING", **options)
    except ConnectionError as error:
        msg = f"there is no Ray cluster at {address or 'the address that Ray found'!r} ({error})"
        raise ShardsUnavailableError(msg, hint="start one with `ray start --head`, or leave {address} out") from error
