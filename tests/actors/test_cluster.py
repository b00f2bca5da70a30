"""Connecting to Ray, and restoring the previous state."""

import fcntl
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

import fedsim
from fedsim.actors import cluster as cluster_module
from fedsim.actors.cluster import cluster, installed_here
from fedsim.errors import ResourceError
from tests.util.processes import HERE, PATIENCE, start_fedsim, write_config

RUNS = """
import json, os, signal, sys
import fedsim
config = {
    "name": "bowl", "scenario": {"name": "workloads:Bowl", "agents": 9},
    "method": {"name": "random-search"},
    "rounds": 2, "backend": "ray",
}
def state():
    return os.getpgrp(), signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
before = state()
# Ray warns of more than eight starting workers on a machine of two CPUs.
for agents_per_actor in json.loads(sys.argv[2]):
    spread = {"agents_per_actor": agents_per_actor}
    fedsim.run({**config, **spread}, out=f"{sys.argv[1]}/{agents_per_actor}")
    import ray
    assert not ray.is_initialized()
    assert state() == before
"""


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("spreads", [[9], [1, 9]])
def test_runs_in_one_process_leave_no_trace(tmp_path: Path, spreads: list[int]) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    (tmp_path / "home").mkdir()
    run = subprocess.run(
        [sys.executable, "-c", RUNS, str(tmp_path), str(spreads)],
        cwd=HERE,
        env={**environment, "HOME": str(tmp_path / "home"), "RAY_worker_niceness": "0"},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    journals = [(tmp_path / f"{n}" / "seed-0" / "journal.jsonl").read_bytes() for n in spreads]
    assert len(set(journals)) == 1


class TestExistingClusters:
    def test_the_callers_connection_is_left_alone(
        self, ray_cluster: str, one_host: dict[str, Any], tmp_path: Path
    ) -> None:
        ref = ray.put("the caller's")
        fedsim.run({**one_host, "rounds": 1, "backend": "ray"}, out=tmp_path / "run")
        assert ray.is_initialized()
        assert ray.get_runtime_context().gcs_address == ray_cluster
        assert ray.get(ref) == "the caller's"

    @pytest.mark.slow
    def test_an_address_is_joined_and_left(
        self, ray_cluster: str, one_host: dict[str, Any], tmp_path: Path
    ) -> None:
        path = write_config({**one_host, "rounds": 1}, tmp_path)
        arguments = ("run", path, "--address", ray_cluster, "--out", str(tmp_path / "run"))
        with start_fedsim("-q", *arguments) as driver:
            _, errors = driver.communicate(timeout=PATIENCE)
        assert (driver.returncode, errors) == (0, "")
        assert ray.get(ray.put(1)) == 1  # the cluster lives on

    def test_a_node_with_another_fedsim_is_refused(
        self,
        ray_cluster: str,
        bowl: dict[str, Any],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        there = installed_here()
        monkeypatch.setattr("fedsim.actors.cluster.installed_here", lambda: "0.0 (sources none)")
        words = rf"node .+: fedsim {re.escape(there)}, here 0\.0 \(sources none\); install the same"
        with pytest.raises(ResourceError, match=words) as raised:
            fedsim.run({**bowl, "rounds": 1, "backend": "ray"}, out=tmp_path / "run")
        assert raised.value.exit_code == 4


class FakeRay:
    """Starts when ``ready`` is set, or fails."""

    def __init__(self) -> None:
        self.ready, self.closed = threading.Event(), threading.Event()
        self.arguments: dict[str, Any] = {}
        self.failure: Exception | None = None

    def init(self, **arguments: Any) -> None:
        self.arguments = arguments
        assert self.ready.wait(PATIENCE)
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def init(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRay]:
    """Ray as far as connecting goes."""
    fake = FakeRay()
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", fake.init)
    monkeypatch.setattr(ray, "shutdown", fake.closed.set)
    yield fake
    fake.ready.set()


class TestPrivateCluster:
    def test_its_folder_is_its_own_and_goes_with_it(self, init: FakeRay) -> None:
        init.ready.set()
        with cluster(None, 3, 60.0):
            folder = Path(init.arguments["_temp_dir"])
            assert folder.is_dir()
            (folder / "session").mkdir()
            assert not init.closed.is_set()
        assert init.closed.is_set()
        assert not folder.exists()

    def test_it_has_as_many_cpus_as_this_process(
        self, init: FakeRay, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("fedsim.actors.cluster.usable_cpus", lambda: 7)
        init.ready.set()
        with cluster(None, 3, 60.0):
            assert (init.arguments["address"], init.arguments["num_cpus"]) == ("local", 7)

    def test_what_a_killed_process_left_is_removed(
        self, init: FakeRay, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with tempfile.TemporaryDirectory(prefix="x", dir="/tmp") as parent:
            monkeypatch.setenv("RAY_TMPDIR", parent)
            left, young, running, other = (
                Path(parent) / f"fedsim-{name}" for name in ("left", "young", "running", "other")
            )
            for folder in (left, young, running, other):
                (folder / "session").mkdir(parents=True)
                if folder is not other:  # not made by a private cluster
                    (folder / ".lock").touch()
                    age = 0.0 if folder is young else 3600.0
                    os.utime(folder / ".lock", (time.time() - age,) * 2)
            init.ready.set()
            with (running / ".lock").open() as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                with cluster(None, 3, 60.0):
                    assert Path(init.arguments["_temp_dir"]).parent == Path(parent)
                    there = [folder.exists() for folder in (left, young, running, other)]
                    assert there == [False, True, True, True]

    @pytest.mark.parametrize("variable", ["RAY_TMPDIR", "TMPDIR"])
    def test_sockets_have_short_names(
        self, init: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
    ) -> None:
        (long := tmp_path / ("x" * 60)).mkdir()
        monkeypatch.delenv("RAY_TMPDIR", raising=False)
        monkeypatch.setenv(variable, str(long))
        monkeypatch.setattr("tempfile.tempdir", None)  # read the variable again
        init.ready.set()
        with cluster(None, 3, 60.0):
            # What Ray adds, for a process id of seven digits; Linux allows 107 bytes, macOS 103.
            socket = "session_2026-11-28_16-37-25_373232_1234567/sockets/plasma_store"
            assert len(f"{init.arguments['_temp_dir']}/{socket}") <= 103

    def test_one_that_does_not_start(self, init: FakeRay) -> None:
        """Not even if nothing interrupts it; should it start later, it is ended at once."""
        with (
            pytest.raises(
                ResourceError, match=r"did not start on this machine within 0\.1 s.*dead"
            ),
            cluster(None, 3, 0.1),
        ):
            pass
        assert not init.closed.is_set()
        init.ready.set()
        assert init.closed.wait(PATIENCE)

    def test_one_that_cannot_start(self, init: FakeRay) -> None:
        init.failure = RuntimeError("no shared memory\nSome guesses:\n- ...")
        init.ready.set()
        with pytest.raises(ResourceError) as raised, cluster(None, 3, 60.0):
            pass
        assert (
            str(raised.value) == "Ray cannot start on this machine: RuntimeError: no shared memory"
        )
        assert raised.value.exit_code == 4


class TestUnreachable:
    @pytest.mark.parametrize(
        ("address", "words"),
        [
            ("127.0.0.1:1", "127.0.0.1:1 cannot be reached"),
            ("no-such-host.invalid:6379", "no-such-host.invalid:6379 cannot be reached"),
            ("somewhere", "RAY_ADDRESS: expected HOST:PORT, got 'somewhere'"),
            ("ray://head:10001", "Ray Client"),
            ("head:port", "expected HOST:PORT, got 'head:port'"),
        ],
    )
    def test_nobody_there(self, monkeypatch: pytest.MonkeyPatch, address: str, words: str) -> None:
        def ask(**_: object) -> None:
            pytest.fail("Ray, which would try for minutes, was asked")

        monkeypatch.setattr(ray, "is_initialized", lambda: False)
        monkeypatch.setattr(ray, "init", ask)
        with pytest.raises(ResourceError, match=words) as raised, cluster(address, 1, 20.0):
            pass
        assert raised.value.exit_code == 4

    def test_a_port_that_never_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ray, "is_initialized", lambda: False)
        with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
            full = [socket.create_connection(listener.getsockname()) for _ in range(2)]
            address = "{}:{}".format(*listener.getsockname())
            with pytest.raises(ResourceError, match="cannot be reached"), cluster(address, 1, 0.5):
                pass
            for connection in full:
                connection.close()


def test_a_plan_that_cannot_fit_is_refused_before_ray_starts(
    bowl: dict[str, Any], tmp_path: Path
) -> None:
    config = {
        **bowl,
        "scenario": {"name": "workloads:Bowl", "agents": 100_000},
        "agents_per_actor": 1,
        "backend": "ray",
    }
    with pytest.raises(ResourceError, match=r"needs about \d+\.\d GB \(100001 actors") as raised:
        fedsim.run(config, out=tmp_path / "run")
    assert raised.value.exit_code == 4
    assert not (tmp_path / "run").exists()


@pytest.mark.heavy
def test_the_terminals_group_is_restored() -> None:
    code = """
import os, subprocess, sys
from fedsim.actors.cluster import terminal_and_signals_kept
group = os.getpgrp()
assert group != os.getpid()
with terminal_and_signals_kept():
    os.setpgrp()
assert os.getpgrp() == group
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def test_a_second_run_of_a_process_does_not_take_the_first_ones_ray(
    one_host: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads, each with a run: the one that ended first would end Ray for both."""
    monkeypatch.setattr("ray.is_initialized", lambda: True)  # by the first run
    with (
        cluster_module._only_one(),
        pytest.raises(ResourceError, match="another run of this process is on Ray"),
    ):
        fedsim.run({**one_host, "backend": "ray"}, out=tmp_path / "run")
    assert not cluster_module._OURS.locked()
