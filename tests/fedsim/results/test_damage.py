"""Run folders that are damaged, of earlier times or copied."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.dashboards.curves import chart
from fedsim.errors import RunFolderError
from fedsim.record.origin import Origin
from fedsim.results.analysis import Run, load
from fedsim.results.entrants import entrants
from fedsim.results.listing import list_runs
from fedsim.results.metrics import seed_scores
from fedsim.results.outcome import is_outcome
from tests.fedsim.results.conftest import ROUNDS
from tests.util.small import small


@pytest.mark.parametrize("name", ["rounds", "observations"])
@pytest.mark.parametrize("damage", [b"garbage", b"PAR1PAR1", None])
def test_tables_that_are_gone_are_made_again(done: Run, name: str, damage: bytes | None) -> None:
    whole = done.read(name)[0]
    path = done.runs[1].folder.path / f"{name}.parquet"
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    again, missing = done.read(name)
    assert missing == []
    pd.testing.assert_frame_equal(again, whole)


def test_tables_of_earlier_versions_are_made_again(done: Run) -> None:
    whole = done.rounds
    path = done.runs[0].folder.path / "rounds.parquet"
    names = {"mean_best_observed": "mean_best", "best_observed": "best"}
    pd.read_parquet(path).rename(columns=names).to_parquet(path)
    pd.testing.assert_frame_equal(done.rounds, whole)


def test_what_this_version_writes_is_not_made_again(done: Run, here: Path) -> None:
    alone = fedsim.run(small(rounds=1), out="alone")
    for one in (*done.runs, *alone.runs):
        assert is_outcome(one.folder.manifest()["outcome"])


@pytest.mark.parametrize(
    "change",
    [
        None,
        "text",
        {"mean_simple_regret": "0.5"},
        {"epsilon": {"pld": 1.0}},
        {"epsilon": [1]},
        {"agents": 2.5},
        {"metric": "simple regret"},
    ],
)
def test_outcomes_that_are_wrong_are_made_again(done: Run, change: Any) -> None:
    one = done.runs[2]
    whole = one.summary()
    outcome = one.folder.manifest()["outcome"]
    damaged = {**outcome, **change} if isinstance(change, dict) else change
    one.folder.update_manifest(outcome=damaged)
    again = one.summary()
    assert again == whole


def test_neither_table_nor_journal(done: Run) -> None:
    folder = done.runs[0].folder
    (folder.path / "rounds.parquet").unlink()
    folder.journal.unlink()
    rounds, missing = done.read("rounds")
    assert len(rounds) == 3 * (ROUNDS + 1)
    assert "a, seed 0 is left out" in missing[0]
    assert "a/seed-0: its journal is missing; restore it from a copy, or move" in missing[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agents": "three"}, "agents: Input should be a valid integer"),
        ({"direction": 7}, "direction: Input should be 'maximize' or 'minimize', got 7"),
        ({"optima": [1.0, None]}, "optima.1"),
        ({"parameters": [{"kind": "Parameter", "nome": "x"}]}, "parameters in manifest.json"),
        ({"parameters": [{"kind": "Later"}]}, "'Later'"),
    ],
)
def test_manifests_with_wrong_types(done: Run, change: dict[str, Any], words: str) -> None:
    one = done.runs[0]
    one.folder.update_manifest(**change)
    for name in ("rounds", "observations"):
        (one.folder.path / f"{name}.parquet").unlink()
    with pytest.raises(RunFolderError, match=words):
        one.table("observations")
    assert any(words in sentence for sentence in done.read("observations")[1])


def replace_manifest(text: str) -> Callable[[Path], None]:
    def damage(seed: Path) -> None:
        (seed / "manifest.json").write_text(text)

    return damage


def garbage_in_the_journal(seed: Path) -> None:
    manifest = (seed / "manifest.json").read_text()
    (seed / "manifest.json").write_text(manifest.replace('"done"', '"running"'))
    (seed / "journal.jsonl").write_text("garbage\n")


def no_configuration(seed: Path) -> None:
    (seed / "manifest.json").write_text('{"status": "running"}')
    (seed / "journal.jsonl").unlink()
    for config in seed.parent.glob("seed-*/config.yaml"):
        config.write_text("- 1\n")


DAMAGES = {
    "manifest is a list": replace_manifest("[]"),
    "manifest is no JSON": replace_manifest("{"),
    "manifest has wrong types": replace_manifest('{"status": "running", "agents": "x"}'),
    "journal is garbage": garbage_in_the_journal,
    "config is a list": no_configuration,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_show_says_which_seed_is_damaged(
    done: Run, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    DAMAGES[damage](done.runs[0].folder.path)
    capsys.readouterr()
    assert run_command(["show", str(done.folder)]) == 0
    out = capsys.readouterr().out
    assert "a, seed 0: damaged: " in out
    assert "1 of 2" in out
    assert run_command(["show", str(done.folder), "--json"]) == 0
    first, second, *_ = json.loads(capsys.readouterr().out)["runs"]
    assert (first["status"], second["status"]) == ("damaged", "done")
    assert first["reason"]


def test_a_run_that_is_damaged_as_a_whole(done: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for one in done.runs:
        DAMAGES["manifest is no JSON"](one.folder.path)
    assert run_command(["show", str(done.folder)]) == 2
    assert "error: " in capsys.readouterr().err


def test_copies_of_seeds_are_not_seeds(done: Run) -> None:
    seed = done.runs[0].folder.path
    shutil.copytree(seed, seed.parent / "seed-0.bak")
    shutil.copytree(seed, seed.parent / "seed-0 copy")
    assert len(load(done.folder).runs) == 4
    (listed,) = list_runs("runs")
    assert (listed.jobs, listed.done) == (4, 4)
    shutil.copytree(seed.parent, seed.parent.parent / "a.bak")
    with pytest.raises(
        RunFolderError, match=r"both are a, seed 0; move the one that is a copy out"
    ):
        load(done.folder)


def test_a_damaged_run_is_counted(done: Run) -> None:
    (done.runs[0].folder.path / "manifest.json").write_text("{")
    (listed,) = list_runs("runs")
    assert (listed.status, listed.done, listed.jobs) == ("damaged", 3, 4)


def test_a_manifest_that_was_removed_is_made_again(done: Run) -> None:
    folder = done.runs[0].folder
    (folder.path / "manifest.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"manifest\.json: .*; remove it and resume the run"):
        folder.manifest()
    journal, summaries = folder.journal.read_bytes(), [one.summary() for one in done.runs[1:]]
    (folder.path / "manifest.json").unlink()
    again = fedsim.resume(done.folder)
    assert folder.journal.read_bytes() == journal
    assert again.runs[0].status == "done"
    assert [one.summary() | {"folder": ""} for one in again.runs[1:]] == [
        one | {"folder": ""} for one in summaries
    ]


@pytest.mark.parametrize("file", ["config.yaml", "a/seed-0/config.yaml", "origin.yaml"])
@pytest.mark.parametrize("content", ["", "- 1\n", "{"])
def test_damaged_files_come_with_advice(done: Run, file: str, content: str) -> None:
    (done.folder / file).write_text(content)

    def read_all() -> object:
        return done.runs[0].folder.config(), Origin.read(done.folder), done.config

    with pytest.raises(RunFolderError, match=r"yaml: .*; restore it from a copy") as caught:
        read_all()
    assert "init" not in str(caught.value)


def test_an_origin_with_wrong_types(done: Run) -> None:
    (done.folder / "origin.yaml").write_text("import_from: [1]\ndata_dir: null\n")
    with pytest.raises(RunFolderError, match=r"origin\.yaml: damaged: import_from.0: .*restore it"):
        Origin.read(done.folder)
    assert {one.variant for one in load(done.folder).runs} == {"a", "b"}


@pytest.mark.parametrize("command", ["show", "resume", "best"])
def test_what_is_no_folder(here: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    Path("my run.yaml").touch()
    Path("notes.txt").touch()
    for given, words in (
        ("my run.yaml", "but a configuration: `fedsim run 'my run.yaml'` runs it"),
        ("notes.txt", "not a run folder, but a file"),
        ("nowhere", "there is no such folder; `fedsim runs` lists runs"),
    ):
        assert run_command([command, given]) == 2
        assert words in " ".join(capsys.readouterr().err.split())


def test_a_folder_around_runs_names_one(
    done: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (".", "runs"):
        with pytest.raises(RunFolderError, match=r"not a run folder, but it holds.*small-1"):
            load(place)
    with pytest.raises(RunFolderError, match="there is no such folder"):
        load("nowhere")
    assert run_command(["show", "."]) == 2
    assert "error: .: not a run folder" in " ".join(capsys.readouterr().err.split())
    monkeypatch.chdir(done.runs[0].folder.path)
    (one,) = load(".").runs
    assert (one.name, one.state) == ("a, seed 0", "done")
    monkeypatch.chdir("..")
    assert [one.name for one in load(".").runs] == ["a, seed 0", "a, seed 1"]


LABELS = [None, b"", b"\xff\xfe\x00"]


@pytest.mark.parametrize("content", LABELS)
def test_a_lost_label_is_what_the_run_knows(done: Run, content: bytes | None) -> None:
    marker = done.folder / "a" / "variant.txt"
    marker.unlink()
    if content is not None:
        marker.write_bytes(content)
    again = load(done.folder)
    assert [run.name for run in again.runs] == [run.name for run in done.runs]
    assert again.best().observed == done.best().observed
    (listed,) = list_runs(done.folder.parent)
    assert listed.variants == ("a", "b")


@pytest.mark.parametrize("content", LABELS)
def test_a_label_that_nothing_knows_is_refused(done: Run, content: bytes | None) -> None:
    (done.folder / "a").rename(done.folder / "c")
    marker = done.folder / "c" / "variant.txt"
    marker.unlink()
    if content is not None:
        marker.write_bytes(content)
    with pytest.raises(RunFolderError, match=r"c/variant\.txt: missing or damaged"):
        load(done.folder)


@pytest.mark.parametrize("left", [0, 1, 3])
@pytest.mark.parametrize("metric", ["seconds", "cpu_seconds", "method_cpu_seconds"])
def test_lost_times_are_not_zero(done: Run, metric: str, left: int) -> None:
    def found(run: Run) -> list[float]:
        (one, _), _ = entrants([run], None)
        return [float(value) for value in seed_scores(one, [metric], 0, ROUNDS)[metric]]

    assert all(value > 0 for value in found(done))
    timings = done.runs[0].folder.timings
    kept = timings.read_bytes().splitlines(keepends=True)[:left]
    timings.write_bytes(b"".join(kept))
    if not left:
        timings.unlink()
    again = load(done.folder)
    first, second = found(again)
    assert np.isnan(first)
    assert second > 0
    compared = fedsim.compare(done.folder, metric=metric)
    assert [row.seeds for row in compared.rows] == [1, 2]
    assert any(note.startswith("a, seed 0 is left out: ") for note in compared.notes)


def test_warnings_are_repeated_wherever_scores_are_shown(
    done: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "resumed with other code: mine changed since the run started"
    for seed in done.runs[:2]:
        seed.folder.update_manifest(warnings=[text, text])
    done.runs[2].folder.update_manifest(warnings=["other"])
    for notes in (fedsim.compare(done).notes, chart(done).notes):
        assert notes[:2] == (f"a, seed 0, and 1 more: {text}", "b, seed 0: other")
    capsys.readouterr()
    assert run_command(["show", str(done.folder)]) == 0
    told = capsys.readouterr().out
    assert f"warning: a, seed 0, and 1 more: {text}\nwarning: b, seed 0: other\n" in told
    assert run_command(["show", "--json", str(done.folder)]) == 0
    records = json.loads(capsys.readouterr().out)["runs"]
    assert [one.get("warnings") for one in records] == [[text], [text], ["other"], None]
    done.runs[0].folder.update_manifest(warnings=7)  # damaged
    assert done.runs[0].warnings == ()
