"""Connects to Ray: a private local cluster, an existing one, or the caller's own connection."""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedsim.errors import ResourceError
from fedsim.resources import usable_cpus


@contextmanager
def cluster(address: str | None, workers: int, deadline: float) -> Iterator[None]:
    """Connect to a cluster, or start a private one; restore the previous state at the end.

    Args:
        address: the address of an existing cluster, or None.
        workers: the number of processes that a private cluster will have.
        deadline: seconds to wait for an answer from each step.

    Raises:
        ResourceError: if it cannot be reached or started, or its nodes lack this fedsim.
    """
    if ray.is_initialized():  # the caller's own connection: use it, keep it open
        _check_nodes(deadline)
        yield
        return
    with terminal_and_signals_kept():
        if address is None:
            _start(workers)
        else:
            _join(address, deadline)
    try:
        if address is not None:
            _check_nodes(deadline)
        yield
    finally:
        with _undisturbed():
            ray.shutdown()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore what stops a process while Ray shuts down: the shutdown would crash."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def _start(workers: int) -> None:
    try:
        ray.init(
            address="local",  # never another cluster that runs on this machine
            num_cpus=usable_cpus(),  # Ray itself does not know of affinity or batch systems
            include_dashboard=False,
            log_to_driver=False,
            # Above ERROR: fedsim reports errors itself.
            logging_level=logging.CRITICAL,
            _system_config={
                # Ray warns on the user's terminal when it starts more processes than it expects,
                "worker_maximum_startup_concurrency": workers,
                # and between two rounds it would end the processes that evaluate.
                "num_workers_soft_limit": workers,
                # Metrics and task events are unused here, and cost every process time.
                "enable_metrics_collection": False,
                "task_events_report_interval_ms": 0,
            },
        )
    except Exception as error:  # it also trips over what it does not expect in /proc
        why = f"{type(error).__name__}: {error}"
        raise ResourceError(f"Ray cannot start on this machine: {why}") from error


def _join(address: str, deadline: float) -> None:
    _probe(address, deadline)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (ConnectionError, OSError, RayError, RuntimeError, ValueError) as error:
        raise ResourceError(f"the Ray cluster at {address} cannot be reached: {error}") from error


def _probe(address: str, deadline: float) -> None:
    """Refuse an address where nothing listens; Ray itself would try for two minutes.

    Raises:
        ResourceError: if it is not ``auto`` or HOST:PORT, or does not answer.
    """
    if address == "auto":
        return  # Ray looks for a cluster that runs on this machine
    host, colon, port = address.rpartition(":")
    if not colon or "/" in host or not port.isdigit():
        raise ResourceError(
            f"address: expected HOST:PORT or auto, got {address!r}; Ray Client (ray://) cannot be "
            "used: run fedsim on a machine of the cluster, where the run folder is kept"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), min(deadline, 10.0)).close()
    except (OSError, OverflowError) as error:
        raise ResourceError(
            f"the Ray cluster at {address} cannot be reached: {error}; check with `ray status` on "
            "its head node that it is running"
        ) from None


@contextmanager
def terminal_and_signals_kept() -> Iterator[None]:
    """Undo the side effects of ``ray.init`` on this process.

    It replaces the SIGTERM handler, by one that raises ``SystemExit``, and moves the process into
    its own group, where the terminal's Ctrl-C no longer reaches it if something else (make, a
    script) started it. A SIGTERM that came meanwhile is given to the handler that was there.
    """
    handler, group = signal.getsignal(signal.SIGTERM), os.getpgrp()
    stopped = False
    try:
        yield
    except SystemExit as error:
        stopped = error.code == signal.SIGTERM
        if not stopped:
            raise
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
        if os.getpgrp() != group:
            with suppress(OSError):  # the old group may be gone
                os.setpgid(0, group)
    if stopped:
        signal.raise_signal(signal.SIGTERM)
        raise KeyboardInterrupt("stopped by SIGTERM")  # where that handler only takes a note


def installed_here() -> str:
    """Return the version of fedsim that this process imports, and a hash of its sources.

    Files are hashed under their import path, so the hash does not depend on the folder layout.
    """
    sources: dict[str, bytes] = {}
    for package in ("fedsim", "fedsim.actors", "fedsim.scenarios", "fedsim.dashboards"):
        found = find_spec(package)
        assert found is not None
        assert found.origin is not None
        folder = Path(found.origin).parent
        for path in folder.rglob("*.py"):
            name = f"{package.replace('.', '/')}/{path.relative_to(folder).as_posix()}"
            sources[name] = path.read_bytes()
    digest = hashlib.sha256()
    for name in sorted(sources):
        digest.update(name.encode() + b"\0" + sources[name] + b"\0")
    return f"{version('fedsim')} (sources {digest.hexdigest()[:12]})"


def _check_nodes(deadline: float) -> None:
    """Check that every node has exactly this fedsim.

    Raises:
        ResourceError: if a node has another fedsim or none, or does not answer; names the node.
    """
    here, start = installed_here(), time.monotonic()

    @ray.remote(num_cpus=0, max_retries=0)
    def installed() -> str:
        try:
            from fedsim.actors.cluster import installed_here

            return installed_here()
        except (ImportError, PackageNotFoundError) as error:
            return f"is not installed ({error})"

    asked = []
    for node in ray.nodes():
        if node["Alive"]:
            place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ref = installed.options(scheduling_strategy=place).remote()
            asked.append((node["NodeManagerHostname"], ref))
    for name, ref in asked:
        try:
            there = ray.get(ref, timeout=max(1.0, deadline - (time.monotonic() - start)))
        except GetTimeoutError:
            raise ResourceError(f"node {name} did not answer within {deadline:g} s") from None
        except RayError as error:
            raise ResourceError(f"node {name} cannot run fedsim's check: {error}") from None
        if there != here:
            raise ResourceError(
                f"node {name}: fedsim {there}, here {here}; install the same fedsim everywhere"
            )
