"""Connects to Ray: a private local cluster, an existing one, or the caller's own connection."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedsim.actors.address import reachable
from fedsim.errors import ResourceError, RunFolderError
from fedsim.record.locking import is_locked, locked
from fedsim.resources import usable_cpus
from fedsim.usercode.calling import words_of

SHUTDOWN_SECONDS = 30.0
"""How long Ray may take to end. Its processes end with this one at the latest."""

GONE_SECONDS = 5.0
"""How long Ray's processes may take to leave its folder alone."""

YOUNG_SECONDS = 60.0
"""How old an unlocked folder of Ray's must be to be removed."""

LONGEST_FOLDER = 30
"""How long the name of Ray's folder may be: it holds sockets, whose names have a limit."""

_OURS = threading.Lock()
"""Held while this process has a connection that fedsim made."""


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
    if ray.is_initialized() and not _OURS.locked():  # the caller's own: use it, keep it open
        _check_nodes(deadline)
        yield
        return
    with _only_one(), _connected(address, workers, deadline):
        yield


@contextmanager
def _only_one() -> Iterator[None]:
    """Refuse a second connection of this process: Ray allows one, and ends it for all."""
    if not _OURS.acquire(blocking=False):
        raise ResourceError(
            "another run of this process is on Ray, which a process can use for one run at a "
            "time: wait for its end, start this one in a process of its own, or call ray.init() "
            "before both"
        )
    try:
        yield
    finally:
        _OURS.release()


@contextmanager
def _connected(address: str | None, workers: int, deadline: float) -> Iterator[None]:
    if address is None:
        with _short_folder() as folder, _connection(_private(workers, folder), None, deadline):
            yield
    else:
        address = reachable(address, deadline)
        with _connection({"address": address}, address, deadline):
            _check_nodes(deadline)
            yield


def _private(workers: int, folder: Path) -> dict[str, Any]:
    """Return the arguments that start a private cluster."""
    return {
        "address": "local",  # never another cluster that runs on this machine
        "num_cpus": usable_cpus(),  # Ray itself does not know of affinity or batch systems
        "include_dashboard": False,
        "_temp_dir": str(folder),
        "_system_config": {
            # Ray warns on the user's terminal when it starts more processes than it expects,
            "worker_maximum_startup_concurrency": workers,
            # and between two rounds it would end the processes that evaluate.
            "num_workers_soft_limit": workers,
            # Metrics and task events are unused here, and cost every process time.
            "enable_metrics_collection": False,
            "task_events_report_interval_ms": 0,
        },
    }


@contextmanager
def _short_folder() -> Iterator[Path]:
    """Make a folder for Ray's sockets and logs, and remove it at the end."""
    wanted = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    parent = wanted if len(wanted) + len("/fedsim-12345678") <= LONGEST_FOLDER else "/tmp"
    try:
        folder = Path(tempfile.mkdtemp(prefix="fedsim-", dir=parent))
    except OSError as error:
        raise ResourceError(
            f"Ray cannot start on this machine: {parent}: {error.strerror}; set RAY_TMPDIR to a "
            f"folder with a short name (Ray's sockets are there)"
        ) from None
    _remove_abandoned(Path(parent))
    try:
        with locked(folder, 0.0):
            yield folder
    finally:
        # Processes that are ending may still write to it.
        patience = time.monotonic() + GONE_SECONDS
        while folder.exists() and time.monotonic() < patience:
            shutil.rmtree(folder, ignore_errors=True)
            time.sleep(0.05)


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of private clusters whose process was killed: nobody holds their lock."""
    for lock in parent.glob("fedsim-*/.lock"):
        with suppress(OSError, RunFolderError):  # another's, or somebody else removes it
            # A young one may be about to be locked.
            if (
                time.time() - lock.stat().st_mtime > YOUNG_SECONDS
                and is_locked(lock.parent) is False
            ):
                shutil.rmtree(lock.parent, ignore_errors=True)


@contextmanager
def _connection(
    arguments: Mapping[str, Any], address: str | None, deadline: float
) -> Iterator[None]:
    connection = _Connection(arguments)
    where = "on this machine" if address is None else f"at {address}"
    with terminal_and_signals_kept():
        connection.start()
        connected = connection.connected.wait(deadline)
    try:
        if not connected:
            raise ResourceError(
                f"Ray did not start {where} within {deadline:g} s (in a forked process it never "
                "does, if the first one has used it); deadlines.start sets the limit"
            )
        if connection.failure is not None:
            raise ResourceError(f"Ray cannot start {where}: {_words(connection.failure)}")
        yield
    finally:
        connection.end.set()
        if connected:
            with _undisturbed():
                connection.closed.wait(SHUTDOWN_SECONDS)


class _Connection(threading.Thread):
    """Starts Ray or joins it, and leaves it.

    In a thread of its own, which lives as long as the connection: Ray can hang where nothing
    interrupts it; and the system ends Ray's processes with the thread that started them.

    Args:
        arguments: of ``ray.init``.

    Attributes:
        connected: set when Ray is ready, or ``failure`` holds why not.
        end: to be set when Ray is no longer needed.
        closed: set when it has ended.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        super().__init__(daemon=True, name="fedsim-ray")
        self.connected = threading.Event()
        self.end = threading.Event()
        self.closed = threading.Event()
        self.failure: Exception | None = None
        self._arguments = arguments

    def run(self) -> None:
        try:
            # Above ERROR: fedsim reports errors itself.
            ray.init(**self._arguments, log_to_driver=False, logging_level=logging.CRITICAL)
        except Exception as error:
            self.failure = error
        finally:
            self.connected.set()
        self.end.wait()
        ray.shutdown()
        self.closed.set()


def _words(error: Exception) -> str:
    """Return an error's kind and the first line of its message: what follows are guesses."""
    return words_of(error).partition("\n")[0]


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore what stops a process while Ray shuts down: its processes would be left."""
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


@contextmanager
def terminal_and_signals_kept() -> Iterator[None]:
    """Undo the side effects of ``ray.init`` on this process.

    It may replace the SIGTERM handler, and moves the process into its own group, where the
    terminal's Ctrl-C no longer reaches it if something else (make, a script) started it.
    """
    handler, group = signal.getsignal(signal.SIGTERM), os.getpgrp()
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
        if os.getpgrp() != group:
            with suppress(OSError):  # the old group may be gone
                os.setpgid(0, group)


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
