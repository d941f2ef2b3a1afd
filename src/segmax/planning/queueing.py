"""Waiting times of queues with several servers, where theory has them."""

from __future__ import annotations

from typing import NamedTuple


class Waiting(NamedTuple):
    """How long requests wait for a server.

    With `probability` a request waits at all; if it does, its waiting time is exponential with the mean `if_it_does`.
    """

    probability: float
    if_it_does: float

    @property
    def mean(self) -> float:
        """The mean over all requests."""
        return self.probability * self.if_it_does


def erlang_c(servers: int, load: float) -> float:
    """Return the probability that a request has to wait, by Erlang's C formula.

    Parameters
    ----------
    servers
        How many there are.
    load
        Requests per second times seconds per request: how many servers are busy on average.

    Examples
    --------
    >>> round(erlang_c(1, 0.5), 6), round(erlang_c(2, 1.0), 6), erlang_c(2, 2.5)
    (0.5, 0.333333, 1.0)
    """
    if load >= servers:
        return 1.0
    lost = 1.0  # Erlang's B: the share of requests that find all servers busy, by recursion over servers
    for number in range(1, servers + 1):
        lost = load * lost / (number + load * lost)
    return lost / (1 - load / servers * (1 - lost))


def waiting(servers: int, rate: float, service: float, variation: float = 1.0) -> Waiting:
    """Return the waiting times of an M/G/c queue, by the approximation of Allen and Cunneen.

    It is exact for one server (its mean) and for exponential service times.

    Parameters
    ----------
    servers
        How many there are.
    rate
        Requests per unit of time, at random.
    service
        The mean time that a request takes.
    variation
        The squared coefficient of variation of these times: variance / mean².

    Returns
    -------
    Waiting
        Infinite times if there is more work than the servers can do.

    Examples
    --------
    >>> waiting(1, rate=0.5, service=1.0)
    Waiting(probability=0.5, if_it_does=2.0)
    >>> waiting(1, rate=0.5, service=1.0, variation=0.0).mean
    0.5
    """
    load = rate * service
    if load >= servers:
        return Waiting(1.0, float("inf"))
    return Waiting(erlang_c(servers, load), service / (servers - load) * (1 + variation) / 2)
