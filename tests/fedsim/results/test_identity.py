"""Seeds' folders that were copied or moved."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.errors import Interrupted, RunFolderError
from fedsim.files import read_yaml, write_yaml
from fedsim.record.progress import Progress
from fedsim.record.runfolder import RunFolder
from fedsim.results.analysis import load
from fedsim.results.listing import list_runs
from fedsim.running.jobs import Job, Listener
from fedsim.scenarios.synthetic import Synthetic
from tests.util.small import small

COPIES = {
    "of another seed": ("first/a/seed-0", "first/a/seed-1", "holds seed 0, not 1"),
    "of a seed as a new one": ("first/a/seed-0", "first/a/seed-7", "holds seed 0, not 7"),
    "of another variant": ("first/b/seed-1", "first/a/seed-1", "other settings than its place"),
    "of another run": ("second/a/seed-1", "first/a/seed-1", "other settings than its place"),
}


def copied(runs: Path, source: str, target: str) -> Path:
    shutil.rmtree(runs / target, ignore_errors=True)
    shutil.copytree(runs / source, runs / target)
    return runs / target


@pytest.mark.parametrize(("source", "target", "words"), COPIES.values(), ids=COPIES)
def test_a_copied_seed_does_not_count(
    runs: Path, source: str, target: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, place = runs / "first", copied(runs, source, target)
    name = f"a, seed {place.name[5:]}"
    run = load(first)
    copy = next(one for one in run.runs if one.folder.path == place)
    for read in (lambda: copy.rounds, copy.facts, copy.summary):
        with pytest.raises(RunFolderError, match=words):
            read()
    sentences = (run.read("rounds")[1], run.read_best()[1], fedsim.compare(first).notes)
    for found in (list(one) for one in sentences):
        assert any(one.startswith(f"{name} is left out: ") and words in one for one in found)
    rounds = run.read("rounds")[0]
    counted = rounds[["variant", "seed"]].drop_duplicates().to_records(index=False).tolist()
    assert counted == [(one.variant, one.seed) for one in run.runs if one.folder.path != place]
    capsys.readouterr()
    assert run_command(["show", str(first)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"{name}: damaged: " in told
    assert words in told
    (listed,) = list_runs(first)
    assert (listed.status, words in str(listed.reason)) == ("damaged", True)
    with pytest.raises(RunFolderError, match=f"{words}.*move it out of the run folder"):
        fedsim.resume(first)
    with pytest.raises(RunFolderError, match=words):
        load(place).best()


FILES = {
    "of another seed": "first/a/seed-1",
    "of another variant": "first/b/seed-0",
    "of another run": "second/a/seed-0",
}

"""Seeds whose files are put into the folder of first/a/seed-0."""


@pytest.mark.parametrize("source", FILES.values(), ids=FILES)
@pytest.mark.parametrize("name", ["rounds", "observations"])
def test_a_table_of_another_seed_does_not_count(runs: Path, source: str, name: str) -> None:
    run = load(runs / "first")
    whole, compared = run.read(name)[0], fedsim.compare(run)
    shutil.copy(runs / source / f"{name}.parquet", runs / "first/a/seed-0")
    pd.testing.assert_frame_equal(run.read(name)[0], whole)
    assert fedsim.compare(run) == compared
    (runs / "first/a/seed-0/journal.jsonl").unlink()
    (note, *_) = load(runs / "first").read(name)[1]
    assert note.startswith("a, seed 0 is left out: ")
    assert "a/seed-0: its journal is missing; " in note


@pytest.mark.parametrize("name", ["rounds", "observations"])
def test_a_table_that_does_not_say_its_journal_counts_if_that_is_lost(
    runs: Path, name: str
) -> None:
    seed = load(runs / "alone").runs[0]
    whole, path = seed.table(name), seed.folder.path / f"{name}.parquet"
    whole.tail(2).to_parquet(path)  # as earlier versions wrote it, without a hash
    pd.testing.assert_frame_equal(seed.table(name), whole)
    seed.folder.journal.unlink()
    assert len(seed.table(name)) == 2


@pytest.mark.parametrize("source", FILES.values(), ids=FILES)
def test_a_manifest_of_another_seed_is_named(
    runs: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = runs / "first"
    whole, manifest = fedsim.compare(first), first / "a/seed-0/manifest.json"
    shutil.copy(runs / source / "manifest.json", manifest)
    (note,) = fedsim.compare(first).notes
    assert note.startswith(f"a, seed 0 is left out: {manifest}: ")
    assert "the journal beside it does not belong to it; remove it and resume" in note
    capsys.readouterr()
    assert run_command(["show", str(first)]) == 0
    assert f"damaged: {manifest}: " in capsys.readouterr().out
    with pytest.raises(RunFolderError, match=r"manifest\.json: .*remove it and resume"):
        fedsim.resume(first)
    manifest.unlink()
    assert fedsim.compare(fedsim.resume(first)) == whole


def test_moved_out_it_is_run_again(runs: Path) -> None:
    whole = load(runs / "first").rounds
    shutil.rmtree(copied(runs, "first/a/seed-0", "first/a/seed-1"))
    pd.testing.assert_frame_equal(fedsim.resume(runs / "first").rounds, whole)


def test_a_copied_seed_that_is_unfinished(runs: Path) -> None:
    place = copied(runs, "alone/seed-0", "alone/seed-1")
    RunFolder(place).update_manifest(status="interrupted", seed=1)
    with pytest.raises(RunFolderError, match=r"journal\.jsonl: belongs to another seed, or to"):
        fedsim.resume(runs / "alone")
    shutil.copy(runs / "second/a/seed-1/journal.jsonl", place / "journal.jsonl")
    (note,) = load(runs / "alone").read("observations")[1]
    assert "journal.jsonl: belongs to another seed, or to other settings" in note


def test_folders_of_earlier_versions_are_read(runs: Path) -> None:
    whole = load(runs / "first").rounds
    origin = read_yaml(runs / "first/origin.yaml")
    del origin["checksum"]
    write_yaml(runs / "first/origin.yaml", {**origin, "variants": list(origin["variants"])})
    for path in (runs / "first").rglob("manifest.json"):
        found = json.loads(path.read_text())
        new = ("run", "settings_fingerprint", "checksum")
        path.write_text(json.dumps({k: v for k, v in found.items() if k not in new}))
    again = load(runs / "first")
    pd.testing.assert_frame_equal(again.rounds, whole)
    assert [one.variant for one in again.runs] == ["a", "a", "b", "b"]
    assert fedsim.compare(again).notes == ()
    fedsim.resume(runs / "first", overrides=["seeds=0-2"])
    copied(runs, "first/a/seed-0", "first/a/seed-1")
    assert "holds seed 0, not 1" in load(runs / "first").read("rounds")[1][0]


class Stopping(Listener):
    """Stops a run in its first round."""

    def progress(self, job: Job, progress: Progress) -> None:
        raise KeyboardInterrupt


def test_a_run_that_was_given_a_class_is_resumed_in_python(here: Path) -> None:
    class Own(Synthetic):
        pass

    with pytest.raises(Interrupted):
        fedsim.run(small(scenario=Own, seeds=[0, 1]), listener=Stopping())
    folder = Path("runs/small-1").absolute()
    again = f"`fedsim.resume({str(folder)!r})`, in Python, where "
    shutil.rmtree(folder / "seed-1")
    (folder / "seed-0/manifest.json").unlink()
    for seed, end in (
        (0, "is known, makes it again from the journal"),
        (1, "is known, runs it again"),
    ):
        told = load(folder).runs[seed]
        with pytest.raises(RunFolderError) as caught:
            told.facts()
        assert again in str(caught.value)
        assert str(caught.value).endswith(end)
        assert "fedsim resume" not in str(caught.value)
