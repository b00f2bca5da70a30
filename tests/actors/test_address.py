"""Existing clusters: found, reached, and asked whether they let this process in."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from fedsim.actors.address import reachable
from fedsim.errors import ResourceError
from tests.util.processes import FEDSIM, PATIENCE, write_config

ASKED = "fedsim.actors.address.subprocess.run"


@pytest.fixture
def listening() -> Iterator[str]:
    """An address that something listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield "{}:{}".format(*listener.getsockname())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a token."""
    for name in list(os.environ):
        if name.startswith("RAY_A"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def answer(monkeypatch: pytest.MonkeyPatch, code: int, errors: str) -> None:
    monkeypatch.setattr(
        ASKED, lambda *_, **__: subprocess.CompletedProcess((), code, stdout="", stderr=errors)
    )


def put_token(home: Path) -> str:
    (home / ".ray").mkdir()
    (home / ".ray" / "auth_token").write_text("a" * 64)
    return re.escape(str(home / ".ray" / "auth_token"))


class TestToken:
    REFUSED = "W gcs_client.cc: InvalidAuthToken\nray.exceptions.AuthenticationError: ..."

    def test_none_here(self, listening: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        answer(monkeypatch, 1, self.REFUSED)
        words = "wants Ray's authentication token, and there is none here: copy ~/.ray/auth_token"
        with pytest.raises(ResourceError, match=words) as raised:
            reachable(listening, 60.0)
        assert raised.value.exit_code == 4
        assert "RAY_AUTH_MODE=token" in str(raised.value)

    def test_none_here_though_one_is_to_be_sent(
        self, listening: str, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ray would end this process."""
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        monkeypatch.setattr(ASKED, lambda *_, **__: pytest.fail("asked"))
        with pytest.raises(ResourceError, match="there is none here"):
            reachable(listening, 60.0)

    def test_not_sent(self, listening: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        answer(monkeypatch, 1, self.REFUSED)
        words = rf"token; to send the one in {put_token(home)}, set RAY_AUTH_MODE=token in the"
        with pytest.raises(ResourceError, match=words):
            reachable(listening, 60.0)

    def test_another(self, listening: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        answer(monkeypatch, 1, self.REFUSED)
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        words = rf"token, and refuses the one in {put_token(home)}: copy"
        with pytest.raises(ResourceError, match=words):
            reachable(listening, 60.0)
        monkeypatch.setenv("RAY_AUTH_TOKEN", "b" * 64)
        with pytest.raises(ResourceError, match="and refuses the one in RAY_AUTH_TOKEN"):
            reachable(listening, 60.0)
        monkeypatch.delenv("RAY_AUTH_TOKEN")
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(home / "nowhere"))
        with pytest.raises(ResourceError, match="there is none here"):
            reachable(listening, 60.0)


class TestOthers:
    def test_a_cluster(self, listening: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        answer(monkeypatch, 0, "")
        assert reachable(listening, 60.0) == listening

    def test_a_ray_that_cannot_be_asked_is_left_to_itself(
        self, listening: str, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer(monkeypatch, 1, "ImportError: cannot import name 'GcsClient'")
        assert reachable(listening, 60.0) == listening

    def test_something_that_is_no_cluster(
        self, listening: str, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer(monkeypatch, 1, "W rpc_client.h: ...\nray.exceptions.RpcError: Timed out\n")
        words = f"{listening} does not answer as a Ray cluster: ray.exceptions.RpcError: Timed out"
        with pytest.raises(ResourceError, match=re.escape(words)):
            reachable(listening, 60.0)

    @pytest.mark.heavy
    def test_something_that_says_nothing(self, listening: str, home: Path) -> None:
        words = f"{listening} does not answer as a Ray cluster within 1 s; deadlines.start sets"
        with pytest.raises(ResourceError, match=re.escape(words)):
            reachable(listening, 1.0)


class TestAuto:
    @pytest.fixture(autouse=True)
    def _answers(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        answer(monkeypatch, 0, "")

    def find(self, monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
        def found() -> set[str]:
            return set(addresses)

        found.cache_clear = lambda: None  # type: ignore[attr-defined]
        monkeypatch.setattr("ray._private.services.find_gcs_addresses", found)

    def test_the_only_one(self, listening: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.find(monkeypatch, listening)
        assert reachable("auto", 60.0) == listening

    def test_several(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.find(monkeypatch, "10.0.0.2:6379", "10.0.0.1:7000")
        words = "auto needs one Ray cluster on this machine, found 2; give one of them: 10.0.0.1:70"
        with pytest.raises(ResourceError, match=re.escape(words)):
            reachable("auto", 60.0)

    def test_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.find(monkeypatch)
        with pytest.raises(ResourceError, match="no Ray cluster runs on this machine"):
            reachable("auto", 60.0)

    def test_the_one_that_the_environment_names(
        self, listening: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.find(monkeypatch, "10.0.0.2:6379", "10.0.0.1:7000")
        monkeypatch.setenv("RAY_ADDRESS", listening)
        assert reachable("auto", 60.0) == listening


def test_the_tests_cluster_is_found(ray_cluster: str) -> None:
    from ray._private.services import find_gcs_addresses

    find_gcs_addresses.cache_clear()  # type: ignore[attr-defined]
    assert ray_cluster in find_gcs_addresses()
    assert ray.is_initialized()


@pytest.mark.heavy
@pytest.mark.slow
def test_a_cluster_as_ray_starts_it_wants_its_token(bowl: dict[str, Any], tmp_path: Path) -> None:
    """Nobody sees Ray's own warnings, and the word that is missing makes it work."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}

    def at(home: str, **more: str) -> dict[str, str]:
        return {**environment, "HOME": str(tmp_path / home), **more}

    for home in ("head", "other"):
        (tmp_path / home / ".ray").mkdir(parents=True)
        (tmp_path / home / ".ray" / "auth_token").write_text(secrets.token_hex(32))
    (tmp_path / "none").mkdir()
    folder = Path(f"/tmp/fedsim-{secrets.token_hex(4)}")  # the sockets' names have a limit
    start = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--port=0"]
    options = ["--num-cpus=1", "--include-dashboard=false", f"--temp-dir={folder}"]
    config = write_config({**bowl, "rounds": 1}, tmp_path)

    def run(out: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        command = [FEDSIM, "run", config, "--address", address, "--out", str(tmp_path / out)]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    with subprocess.Popen(
        [*start, *options], env=at("head"), stdout=-1, stderr=subprocess.STDOUT, text=True
    ) as head:
        try:
            assert head.stdout is not None
            found = (re.search(r"--address='([0-9.:]+)'", line) for line in head.stdout)
            address = next(match[1] for match in found if match)
            for home, mode, words in (
                ("none", "", "and there is none here"),
                ("head", "", "to send the one in"),
                ("other", "token", "and refuses the one in"),
            ):
                done = run(f"{home}-{mode}", at(home, **({"RAY_AUTH_MODE": mode} if mode else {})))
                assert done.returncode == 4
                assert words in " ".join(done.stderr.split())
                assert "gcs_client" not in done.stderr
            done = run("joined", at("head", RAY_AUTH_MODE="token"))
            assert done.returncode == 0, done.stderr
        finally:
            head.terminate()
            head.communicate(timeout=PATIENCE)
            shutil.rmtree(folder, ignore_errors=True)
