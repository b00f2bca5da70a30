"""The hosts of a server, and what it says about the silent ones."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fedsim.actors.host import Health
from fedsim.actors.pool import Host, HostPool
from fedsim.config.model import DeadlinesConfig


class FakeHost:
    """An actor whose health check is answered once ``answers`` is set."""

    answers = False

    @property
    def health(self) -> FakeHost:
        return self

    def remote(self) -> FakeHost:
        return self


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> HostPool:
    def wait(refs: list[FakeHost], **_: Any) -> tuple[list[FakeHost], list[FakeHost]]:
        return [r for r in refs if r.answers], [r for r in refs if not r.answers]

    monkeypatch.setattr("fedsim.actors.pool.ray.wait", wait)
    monkeypatch.setattr(
        "fedsim.actors.pool.ray.get", lambda ref, **_: Health(None, None, 0.0, "node-7")
    )
    monkeypatch.setattr(HostPool, "_new_actor", lambda self, cpus: FakeHost())
    return HostPool(3, 1.0, DeadlinesConfig(evaluation=100.0, answer=20.0))


def look(pool: HostPool, host: Host, seconds: float) -> None:
    """Look at a host that was asked so many seconds ago."""
    if host.asked is not None:
        host.asked = (host.asked[0], time.monotonic() - seconds)
    assert pool.problem(host) is None


def answer(pool: HostPool, host: Host) -> None:
    host.actor.answers = True
    look(pool, host, 0.0)
    host.actor.answers, host.next_question = False, 0.0


def test_hosts_that_start_slowly(pool: HostPool) -> None:
    for host in pool.hosts:
        look(pool, host, 0.0)
        look(pool, host, 5.0)
    assert pool.waiting() == ""
    answer(pool, pool.hosts[1])
    for host in pool.hosts[::2]:
        look(pool, host, 30.0)
    assert pool.waiting() == "2 of 3 host actors have not started yet"


def test_a_host_that_falls_silent(pool: HostPool) -> None:
    host = pool.hosts[0]
    look(pool, host, 0.0)
    answer(pool, host)
    look(pool, host, 0.0)
    look(pool, host, 42.4)
    assert pool.waiting() == (
        "a host on node-7 has been silent for 42 s; it is replaced after 120 s"
    )
    answer(pool, host)
    assert pool.waiting() == ""
