"""Resuming with other settings: the journals stay what a run with them would have written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.errors import ConfigError, Interrupted, ObjectiveError
from fedsim.files import read_yaml
from tests.util.small import UserModule, small
from tests.util.stopping import Stop


def interrupted(after: int, *args: Any, **raw: Any) -> str:
    """Start a run that is interrupted after a round; return its folder."""
    with pytest.raises(Interrupted):
        fedsim.run(small(*args, **raw), out="stopped", listener=Stop(after))
    return "stopped"


def journals(run: fedsim.Run) -> dict[str, bytes]:
    return {f"{one.variant}/{one.seed}": one.folder.journal.read_bytes() for one in run.runs}


def test_more_seeds(here: Path) -> None:
    whole = fedsim.run(small(seeds=[0, 1, 2]), out="whole")
    fedsim.run(small(seeds=[1]), out="some")
    assert journals(fedsim.resume("some", overrides=["seeds=0-2"])) == journals(whole)
    assert read_yaml(Path("some/config.yaml"))["seeds"] == [0, 1, 2]
    assert fedsim.resume("some").config["seeds"] == [0, 1, 2]


def test_the_record_keeps_what_it_was(here: Path) -> None:
    folder = interrupted(1)
    run = fedsim.resume(folder, overrides=["deadlines.answer=7", "on_error=skip"])
    (one,) = run.runs
    told = {
        change["key"]: (change["from"], change["to"]) for change in one.folder.manifest()["changes"]
    }
    assert told["on_error"] == ("stop", "skip")
    assert told["deadlines.answer"] == (60.0, 7.0)
    for config in (run.config, one.folder.config()):
        assert (config["on_error"], config["deadlines"]["answer"]) == ("skip", 7.0)
    assert journals(run) == journals(fedsim.run(small(), out="whole"))


def test_a_failure_is_skipped_after_all(here: Path, user_module: UserModule) -> None:
    module = user_module(
        """
        from fedsim.space import Parameter, Space
        class Picky:
            space, direction, agents = Space((Parameter("x", 0, 1),)), "maximize", 2
            def objective(self, agent):
                def objective(point, rng):
                    if agent == 1 and point["x"] > 0.5:
                        raise ValueError("too far")
                    return point["x"]
                return objective
        """
    )
    raw = small(scenario={"name": f"{module}:Picky"}, rounds=4)
    with pytest.raises(ObjectiveError):
        fedsim.run(raw, out="stopped")
    run = fedsim.resume("stopped", overrides=["on_error=skip"])
    assert journals(run) == journals(fedsim.run({**raw, "on_error": "skip"}, out="whole"))
    (one,) = run.runs
    one.folder.update_manifest(status="failed")
    with pytest.raises(
        ConfigError, match=r"on_error: cannot change any more: .*failed and was ski"
    ):
        fedsim.resume("stopped", overrides=["on_error=stop"])


PRIVATE: dict[str, Any] = {"rounds": 3, "privacy": {"delta": 1e-5, "budget": 3.0}}
"""Of the releases, this budget allows the first."""


class TestBudget:
    @pytest.mark.parametrize("budget", ["4.5", "null"])
    def test_it_may_rise_before_it_is_felt(self, here: Path, budget: str) -> None:
        folder = interrupted(0, "dp-fts-de", **PRIVATE)
        run = fedsim.resume(folder, overrides=[f"privacy.budget={budget}"])
        expected = fedsim.run(
            small("dp-fts-de", **PRIVATE), overrides=[f"privacy.budget={budget}"], out="whole"
        )
        assert journals(run) == journals(expected)
        felt = fedsim.run(small("dp-fts-de", **PRIVATE), out="felt")
        assert journals(run) != journals(felt)

    def test_it_may_not_rise_after_a_refusal(self, here: Path) -> None:
        folder = interrupted(2, "dp-fts-de", **PRIVATE)
        with pytest.raises(ConfigError, match=r"privacy.budget: cannot change any more: .*refused"):
            fedsim.resume(folder, overrides=["privacy.budget=null"])
        assert fedsim.resume(folder).config["privacy"]["budget"] == 3.0


def test_what_may_not_change_leaves_all_as_it_was(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = interrupted(1)
    before = {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
    assert run_command(["resume", folder, "--set", "rounds=9"]) == 2
    assert "rounds: cannot change when a run is resumed" in capsys.readouterr().err
    for key in ("method.name=ts", "method=ts", "method={name: ts, initial_points: 2}"):
        assert run_command(["resume", folder, "--set", key]) == 2
        assert "method.name: cannot change when a run is resumed" in capsys.readouterr().err
    assert run_command(["resume", folder, "--set", "scenario.name=functions"]) == 2
    assert "scenario.name: cannot change when a run is resumed" in capsys.readouterr().err
    assert run_command(["resume", folder, "--set", "raunds=9"]) == 2
    assert "raunds: unknown key" in capsys.readouterr().err
    after = {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
    assert after == before
    assert run_command(["resume", folder, "--set", "deadlines.answer=9", "--json"]) == 0
