"""Run folders that are unfinished, damaged, of earlier times or copied."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.dashboards.curves import chart
from fedsim.errors import Interrupted, RunFolderError
from fedsim.record.origin import Origin
from fedsim.record.progress import Progress
from fedsim.results.analysis import Run, load
from fedsim.results.entrants import entrants
from fedsim.results.listing import list_runs
from fedsim.results.metrics import seed_scores
from fedsim.results.outcome import is_outcome
from fedsim.running.jobs import Job, Listener
from tests.util.small import small

ROUNDS = 4


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished private run of two variants and two seeds."""
    variants = {"a": {"method": {"initial_points": 3}}, "b": {}}
    raw = small("dp-fts-de", rounds=ROUNDS, seeds=[0, 1], variants=variants)
    return fedsim.run(raw, out=tmp_path_factory.mktemp("finished") / "run").folder


@pytest.fixture
def done(here: Path, finished: Path) -> Run:
    """A copy of it."""
    shutil.copytree(finished, "runs/small-1")
    return load("runs/small-1")


class Stopping(Listener):
    """Stops a run after a round of one of its jobs."""

    def __init__(self, label: str, seed: int, last: int) -> None:
        self.last = (label, seed, last)

    def progress(self, job: Job, progress: Progress) -> None:
        if (job.label, job.simulation.spec.seed, progress.round) == self.last:
            raise KeyboardInterrupt


def stop(last: int, **changes: Any) -> Run:
    with pytest.raises(Interrupted):
        fedsim.run(small(rounds=ROUNDS, seeds=[0, 1], **changes), listener=Stopping(*AT, last))
    return load("runs/small-1")


AT = ("random-search", 1)


def test_what_an_interrupted_run_has_is_read(here: Path) -> None:
    run = stop(2)
    rounds, missing = run.read("rounds")
    assert rounds.groupby("seed")["round"].max().to_dict() == {0: ROUNDS, 1: 2}
    assert missing == [
        f"random-search, seed 1: interrupted, 2 of {ROUNDS} rounds: stopped by Ctrl-C"
    ]
    with pytest.warns(UserWarning, match=r"small-1 is incomplete: random-search, seed 1"):
        observed = run.observations
    assert len(observed) == 3 * (2 + ROUNDS) + 3 * (2 + 2)
    whole = fedsim.resume("runs/small-1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pd.testing.assert_frame_equal(whole.rounds.iloc[: len(rounds)], rounds)
        pd.testing.assert_frame_equal(whole.observations.iloc[: len(observed)], observed)


def test_seeds_without_anything_are_left_out(here: Path) -> None:
    run = stop(2, variants={"random-search": {}, "late": {}})
    rounds, missing = run.read("rounds")
    assert set(rounds["variant"]) == {"random-search"}
    assert [one.partition(":")[0] for one in missing[1:]] == [
        f"late, seed {seed} is left out" for seed in (0, 1)
    ]
    with pytest.raises(
        RunFolderError,
        match=r"nothing is recorded.*not started.*`fedsim resume .*runs/small-1` starts",
    ):
        _ = load("runs/small-1/late").rounds


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
    assert "journal.jsonl: not found; restore it from a copy, or remove" in missing[0]


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
    with pytest.raises(RunFolderError, match=r"is a, seed 0, as is .*move the copy out"):
        load(done.folder)


def lost(done: Run, capsys: pytest.CaptureFixture[str], command: str) -> tuple[str, str]:
    """Return what a command says, and what its JSON says of the first seed."""
    capsys.readouterr()
    assert run_command([command, str(done.folder)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert run_command([command, str(done.folder), "--json"]) == 0
    first, *others = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
    assert all("lost" not in one for one in others)
    return told, first.get("lost", "")


@pytest.mark.parametrize("command", ["show", "resume"])
def test_a_lost_journal_is_said(
    done: Run, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    journal = done.runs[0].folder.journal
    assert lost(done, capsys, command)[1] == ""
    with journal.open("ab") as file:
        file.write(b"x")
    sentence = "its journal is not the one that it ended with"
    told, record = lost(done, capsys, command)
    assert f"a, seed 0: {sentence}" in told
    assert sentence in record
    journal.unlink()
    told, record = lost(done, capsys, command)
    assert "a, seed 0: its journal is missing: only its tables and its outcome are left" in told
    assert "its journal is missing" in record


def empty(journal: Path) -> None:
    journal.write_bytes(b"")


def cut(journal: Path) -> None:
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:5]))


def alter(journal: Path) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:4], lines[4].replace(b"0", b"1"), *lines[5:]]))


LOSSES: dict[str, Callable[[Path], None]] = {
    "empty": empty,
    "cut": cut,
    "altered": alter,
    "missing": Path.unlink,
}


@pytest.mark.parametrize("loss", LOSSES)
def test_best_does_not_use_a_lost_journal(
    done: Run, loss: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = done.best_points()
    LOSSES[loss](done.runs[0].folder.journal)
    points, missing = done.read_best()
    assert points == tuple(one for one in whole if (one.variant, one.seed) != ("a", 0))
    (sentence,) = missing
    assert sentence.startswith("a, seed 0 is left out: ")
    assert "journal.jsonl: " in sentence
    capsys.readouterr()
    assert run_command(["best", str(done.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == missing
    with pytest.raises(RunFolderError, match=r"journal\.jsonl: "):
        load(done.runs[0].folder.path).best()


@pytest.mark.parametrize("name", ["rounds", "observations"])
@pytest.mark.parametrize("loss", LOSSES)
def test_tables_are_not_made_from_a_lost_journal(done: Run, name: str, loss: str) -> None:
    one = done.runs[0]
    LOSSES[loss](one.folder.journal)
    assert done.read(name)[1] == []  # the table that is stored is used
    (one.folder.path / f"{name}.parquet").unlink()
    assert "a, seed 0 is left out: " in done.read(name)[1][0]
    one.folder.update_manifest(outcome={**one.folder.manifest()["outcome"], "agents": "x"})
    with pytest.raises(RunFolderError, match=r"journal\.jsonl: "):
        one.summary()


@pytest.mark.parametrize("loss", LOSSES)
def test_the_advice_for_a_lost_journal_works(done: Run, loss: str) -> None:
    folder = done.runs[0].folder
    rounds, points = done.rounds, done.best_points()
    journal = folder.journal.read_bytes()
    LOSSES[loss](folder.journal)
    with pytest.raises(RunFolderError) as caught:
        load(folder.path).best()
    for part in ("manifest.json", "state/checkpoint.npz", "resume"):
        assert part in str(caught.value)
    if loss == "altered":  # "cut it there"
        cut(folder.journal)
        folder.journal.write_bytes(b"".join(folder.journal.read_bytes().splitlines(True)[:4]))
    assert "resume" in load(folder.path).summaries()[0]["lost"]
    (folder.path / "manifest.json").unlink()
    (folder.path / "state/checkpoint.npz").unlink()
    again = fedsim.resume(done.folder)
    assert folder.journal.read_bytes() == journal
    assert again.best_points() == points
    pd.testing.assert_frame_equal(again.rounds, rounds)
    assert "lost" not in again.runs[0].summary()


def test_a_seed_whose_folder_is_missing(done: Run, capsys: pytest.CaptureFixture[str]) -> None:
    whole = done.rounds
    folder = done.runs[1].folder.path
    shutil.rmtree(folder)
    run = load(done.folder)
    assert [(one.variant, one.seed, one.state) for one in run.runs] == [
        ("a", 0, "done"),
        ("a", 1, "missing"),
        ("b", 0, "done"),
        ("b", 1, "done"),
    ]
    capsys.readouterr()
    for given in (done.folder, done.folder / "a"):
        assert run_command(["show", str(given)]) == 0
        out = capsys.readouterr().out
        assert "a, seed 1: its folder is missing" in out
        assert "1 of 2" in out
        assert "continue with: fedsim resume " in out
    assert run_command(["show", str(done.folder), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)["runs"][1]
    assert (record["status"], record["reason"]) == ("missing", "its folder is missing")
    (listed,) = list_runs("runs")
    assert (listed.status, listed.done, listed.jobs) == ("stopped", 3, 4)
    assert listed.reason == f"{done.folder / 'a' / 'seed-1'}: its folder is missing"
    for missing in (run.read("rounds")[1], run.read_best()[1], fedsim.compare(run).notes):
        assert any(
            note.startswith("a, seed 1 is left out: ") and "its folder is missing" in note
            for note in missing
        )
    with pytest.warns(UserWarning, match=r"a, seed 1 is left out: .*its folder is missing"):
        run.best()
    again = fedsim.resume(done.folder)
    pd.testing.assert_frame_equal(again.rounds, whole)
    assert [one.state for one in again.runs] == ["done"] * 4


def test_a_variant_or_a_configuration_that_is_missing(done: Run) -> None:
    shutil.rmtree(done.folder / "b")
    (done.folder / "a" / "seed-0" / "config.yaml").unlink()
    run = load(done.folder)
    assert [(one.variant, one.seed, one.state) for one in run.runs] == [
        ("a", 0, "done"),
        ("a", 1, "done"),
        ("b", 0, "missing"),
        ("b", 1, "missing"),
    ]
    assert len(load(done.folder / "a").runs) == 2
    (listed,) = list_runs("runs")
    assert (listed.done, listed.jobs) == (2, 4)


def test_a_damaged_run_is_counted(done: Run) -> None:
    (done.runs[0].folder.path / "manifest.json").write_text("{")
    (listed,) = list_runs("runs")
    assert (listed.status, listed.done, listed.jobs) == ("damaged", 3, 4)


def test_a_run_of_one_variant_that_lacks_a_seed(here: Path) -> None:
    run = fedsim.run(small(seeds=[0, 1, 2], rounds=1))
    shutil.rmtree(run.runs[1].folder.path)
    found = load(run.folder).runs
    assert [(one.variant, one.seed, one.state) for one in found] == [
        ("random-search", 0, "done"),
        ("random-search", 1, "missing"),
        ("random-search", 2, "done"),
    ]
    assert "2 done, 1 missing" in load(run.folder)._repr_html_()


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


def test_a_run_that_ended_before_its_first_seed(
    done: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on a full disk: the folder of the first seed is there, but its configuration is not."""
    whole = done.rounds
    for variant in ("a", "b"):
        shutil.rmtree(done.folder / variant)
    (done.folder / "a/seed-0/state").mkdir(parents=True)
    run = load(done.folder)
    assert [(one.name, one.state) for one in run.runs] == [
        (f"{variant}, seed {seed}", "missing") for variant in "ab" for seed in (0, 1)
    ]
    capsys.readouterr()
    assert run_command(["show", str(done.folder)]) == 0
    told = capsys.readouterr().out
    assert "continue with: fedsim resume" in told
    assert "fedsim best" not in told
    with pytest.raises(RunFolderError, match=r"seed-0: its folder is missing; `fedsim resume"):
        run.best()
    pd.testing.assert_frame_equal(fedsim.resume(done.folder).rounds, whole)


def test_show_hints_at_best_points_only_if_there_are_some(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stop(2)
    for last, hinted in ((True, True), (False, False)):
        if not last:
            for seed in run.runs:
                seed.folder.update_manifest(status="interrupted")
                journal = seed.folder.journal
                journal.write_bytes(journal.read_bytes().partition(b"\n")[0] + b"\n")
        capsys.readouterr()
        assert run_command(["show", str(run.folder)]) == 0
        assert ("fedsim best" in capsys.readouterr().out) == hinted
