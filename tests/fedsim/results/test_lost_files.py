"""Configurations, origins, journals and manifests that are lost or changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.dashboards.curves import chart
from fedsim.errors import RunFolderError
from fedsim.files import read_yaml, write_yaml
from fedsim.results.analysis import Run, load
from tests.util.small import small


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_text("")


def garble(path: Path) -> None:
    path.write_bytes(b"\xff\xfe{")


def replace(path: Path) -> None:
    path.write_text("a: 1\n")


LOSSES = [remove, empty, garble, replace]


@pytest.mark.parametrize("lose", LOSSES)
def test_a_lost_configuration_of_a_seed_is_another_seeds(
    runs: Path, lose: Callable[[Path], None]
) -> None:
    whole = fedsim.compare(runs / "first", runs / "second")
    lose(runs / "first/a/seed-0/config.yaml")
    run = load(runs / "first")
    assert len(run.runs) == 4
    assert run.runs[0].configuration()["seeds"] == [0]
    assert fedsim.compare(run, runs / "second") == whole


@pytest.mark.parametrize("lose", LOSSES)
def test_lost_configurations_of_all_seeds(runs: Path, lose: Callable[[Path], None]) -> None:
    whole = fedsim.compare(runs / "alone"), load(runs / "alone").best_points()
    for seed in (0, 1):
        lose(runs / f"alone/seed-{seed}/config.yaml")
    run = load(runs / "alone")
    assert (fedsim.compare(run), run.best_points()) == whole
    for path in (runs / "first").glob("*/seed-*/config.yaml"):
        lose(path)
    run = load(runs / "first")
    assert [one.name for one in run.runs] == ["a, seed 0", "a, seed 1", "b, seed 0", "b, seed 1"]
    assert len(run.best_points()) == 12
    found = fedsim.compare(run)
    assert [one.partition(": ")[0] for one in found.notes[:2]] == ["a", "b"]
    assert all("its settings are lost, so that" in one for one in found.notes[:2])
    assert "a scenario that is not known: not paired" in found.notes[-1]
    fedsim.resume(runs / "first")
    assert fedsim.compare(runs / "first").notes == ()


@pytest.mark.parametrize("lose", LOSSES)
def test_a_runs_lost_configuration_is_said(
    runs: Path, lose: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = {name: load(runs / name).rounds for name in ("first", "alone")}
    for name, rounds in whole.items():
        lose(runs / name / "config.yaml")
        run = load(runs / name)
        found, notes = run.read("rounds")
        pd.testing.assert_frame_equal(found, rounds)
        assert notes[0].startswith("it is not known which seeds the run has: ")
        assert "config.yaml: " in notes[0]
        assert fedsim.compare(run).notes[-len(notes) :] == tuple(notes)
        capsys.readouterr()
        assert run_command(["show", str(runs / name)]) == 0
        assert "it is not known which seeds the run has: " in capsys.readouterr().out
        assert run_command(["show", "--json", str(runs / name)]) == 0
        assert json.loads(capsys.readouterr().out)["lost"] == notes[0]
        with pytest.raises(RunFolderError, match=r"config\.yaml: .*restore it from a copy"):
            fedsim.resume(runs / name)


def test_settings_that_were_changed_are_refused(runs: Path) -> None:
    path = runs / "first/a/seed-0/config.yaml"
    config = read_yaml(path)
    write_yaml(path, {**config, "scenario": {**config["scenario"], "agents": 9}})
    assert load(runs / "first").runs[0].configuration() == config
    top = read_yaml(runs / "first/config.yaml")
    write_yaml(runs / "first/config.yaml", {**top, "rounds": 5})
    with pytest.raises(RunFolderError, match=r"config\.yaml: .*differs in rounds from what"):
        fedsim.resume(runs / "first")
    origin = read_yaml(runs / "first/origin.yaml")
    del origin["checksum"], origin["keys"]  # as earlier versions left it
    write_yaml(runs / "first/origin.yaml", origin)
    with pytest.raises(RunFolderError, match=r"a belongs to other settings than config\.yaml"):
        fedsim.resume(runs / "first")


def test_a_lost_origin_is_named(runs: Path) -> None:
    (runs / "first/origin.yaml").unlink()
    run: Run = load(runs / "first")
    assert run.whole == runs / "first"
    shutil.rmtree(runs / "first/a/seed-1")
    lost, missing = load(runs / "first").read("rounds")[1]
    assert lost.startswith("it is not known whether config.yaml is as the run began: ")
    assert "origin.yaml: is missing; restore it" in lost
    assert "its folder is missing" in missing
    (runs / "alone/origin.yaml").unlink()
    for name in ("first", "alone"):
        with pytest.raises(RunFolderError, match=r"origin\.yaml: is missing; restore it"):
            fedsim.resume(runs / name)
    (runs / "first/config.yaml").unlink()
    for path in (runs / "first", runs / "second/a", runs / "second/a/seed-0"):
        with pytest.raises(RunFolderError, match="give the run folder itself"):
            fedsim.resume(path)


@pytest.mark.parametrize("change", [b"x", None])
def test_compare_and_plot_say_a_lost_journal(runs: Path, change: bytes | None) -> None:
    journal = runs / "first/a/seed-0/journal.jsonl"
    if change is None:
        journal.unlink()
    else:
        journal.write_bytes(journal.read_bytes() + change)
    run = load(runs / "first")
    for notes in (fedsim.compare(run).notes, chart(run).notes):
        (note,) = notes
        assert "a, seed 0: only its tables and its outcome are left: its journal is" in note


def test_a_lost_manifest_is_named(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "first/a/seed-0/manifest.json").unlink()
    words = r"seed-0/manifest\.json: is missing; `fedsim resume .*first` makes it again"
    with pytest.raises(RunFolderError, match=words):
        load(runs / "first/a/seed-0").best()
    capsys.readouterr()
    assert run_command(["show", str(runs / "first")]) == 0
    assert "manifest.json: is missing; `fedsim resume" in " ".join(capsys.readouterr().out.split())
    assert fedsim.resume(runs / "first").runs[0].status == "done"


def test_without_an_origin_the_baseline_is_still_the_first_variant(tmp_path: Path) -> None:
    variants = {"z": {}, "a": {"rounds": 2}}
    run = fedsim.run(small(rounds=2, seeds=[0, 1], variants=variants), out=tmp_path / "run")
    whole = fedsim.compare(run.folder)
    (run.folder / "origin.yaml").unlink()
    assert whole.baseline == "z"
    assert fedsim.compare(run.folder).baseline == "z"
