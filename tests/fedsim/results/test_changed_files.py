"""Files of an unfinished run that were changed, cut, or put in place of others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedsim
from fedsim.errors import RunFolderError
from fedsim.files import read_yaml, write_yaml
from fedsim.record.runfolder import RunFolder
from fedsim.results.analysis import load
from tests.fedsim.results.conftest import ROUNDS, UNFINISHED
from tests.util.readers import everywhere, listed, told
from tests.util.small import small

ALL = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def seeds_of(run: Path) -> list[tuple[str, int]]:
    return [(one.variant, one.seed) for one in load(run).runs]


def edit(path: Path, **changes: Any) -> None:
    write_yaml(path, {**read_yaml(path), **changes})


def of_a_seed(config: Path) -> None:
    shutil.copy(config.parent / UNFINISHED / "config.yaml", config)


def without_a_variant(config: Path) -> None:
    edit(config, variants={"b": read_yaml(config)["variants"]["b"]})


def renamed_variant(config: Path) -> None:
    one = read_yaml(config)["variants"]
    edit(config, variants={"a": one["a"], "c": one["b"]})


def one_more_variant(config: Path) -> None:
    edit(config, variants={**read_yaml(config)["variants"], "c": {"rounds": 7}})


def changed_variant(config: Path) -> None:
    edit(config, variants={**read_yaml(config)["variants"], "a": {"rounds": 7}})


def emptied(config: Path) -> None:
    config.write_text("")


BEGAN = "differs in {0} from what the run began with (origin.yaml says so; {0} was {1}); "

CONFIGS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a seed's": (of_a_seed, "lacks the run's variants a, b and has variant ts, which"),
    "a variant lost": (without_a_variant, "lacks the run's variant a"),
    "a variant renamed": (renamed_variant, "lacks the run's variant b and has variant c, which"),
    "a variant more": (one_more_variant, "has variant c, which the run does not have"),
    "a variant changed": (changed_variant, "differs in variants from what the run"),
    "a seed lost": (lambda config: edit(config, seeds=[1]), "lacks the run's seed 0"),
    "rounds changed": (
        lambda config: edit(config, rounds=9),
        BEGAN.format("rounds", ROUNDS),
    ),
    "availability changed": (
        lambda config: edit(config, availability=0.5),
        BEGAN.format("availability", 1.0),
    ),
    "emptied": (emptied, "config.yaml: is empty"),
    "lost": (Path.unlink, "config.yaml: cannot be read"),
}


@pytest.mark.parametrize(("change", "words"), CONFIGS.values(), ids=CONFIGS)
def test_a_configuration_that_is_not_the_runs(
    run: Path, change: Callable[[Path], None], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = load(run).read("rounds")[0]
    change(run / "config.yaml")
    assert seeds_of(run) == ALL
    pd.testing.assert_frame_equal(load(run).read("rounds")[0], whole)
    with pytest.raises(RunFolderError, match=r"config\.yaml: .*; restore it from a copy") as caught:
        fedsim.resume(run)
    assert words in str(caught.value)
    for text in everywhere(run, capsys):
        assert str(caught.value) in text  # what resume says
    shown = told("show", run, capsys)
    assert "repair what is damaged, then continue with: fedsim resume run" in shown
    one = listed(run)
    assert (one.status, one.variants, one.rounds) == ("damaged", ("a", "b"), ROUNDS)
    assert (one.jobs, one.done) == (4, 3)
    assert not (run / "seed-1").exists()


def put_origin_of(other: dict[str, Any], run: Path) -> None:
    shutil.copy(fedsim.run(other, out="other").folder / "origin.yaml", run)


TWO: dict[str, Any] = {"a": {}, "b": {"method": {"name": "ts"}}}
ORIGINS: dict[str, dict[str, Any]] = {
    "other settings": {"variants": TWO, "rounds": 1},
    "other seeds": {"variants": TWO, "seeds": [7]},
    "without variants": {"rounds": 1, "seeds": [1]},
}


@pytest.mark.parametrize("other", ORIGINS.values(), ids=ORIGINS)
def test_an_origin_of_another_run_is_named(
    run: Path, other: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = load(run).read("rounds")
    put_origin_of(small(**{"rounds": ROUNDS, "seeds": [0, 1], **other}), run)
    found, notes = load(run).read("rounds")
    pd.testing.assert_frame_equal(found, whole[0])
    assert seeds_of(run) == ALL
    assert [note for note in notes if "origin.yaml" not in note] == whole[1]
    words = "run/origin.yaml: not of this run: neither config.yaml nor the seeds beside it belong"
    for text in everywhere(run, capsys):
        assert text.count(words) == 1
        assert "move it out" not in text
    with pytest.raises(RunFolderError, match=r"origin\.yaml: not of this run"):
        fedsim.resume(run)


def test_an_origin_of_a_run_without_variants(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fedsim.run(small(rounds=1), out="run").folder
    put_origin_of(small("ts", rounds=2), run)
    assert [one.name for one in load(run).runs] == ["random-search, seed 0"]
    for text in everywhere(run, capsys):
        assert "run/origin.yaml: not of this run" in text


def cut_end(origin: Path) -> None:
    lines = origin.read_text().splitlines(keepends=True)
    origin.write_text("".join(lines[: lines.index("seeds:\n") + 2]))  # still a mapping


def cut_inside(origin: Path) -> None:
    origin.write_text(origin.read_text().replace("seeds:", "seeds: ["))


def other_settings_of_a_variant(origin: Path) -> None:
    edit(origin, variants={**read_yaml(origin)["variants"], "a": "0123456789abcdef"})


def other_keys(origin: Path) -> None:
    edit(origin, keys={**read_yaml(origin)["keys"], "rounds": "0123456789abcdef"})


DAMAGES = {
    "cut": (cut_end, "was cut or changed after fedsim wrote it"),
    "not YAML": (cut_inside, ""),
    "a variant's fingerprint": (other_settings_of_a_variant, "was cut or changed"),
    "a key's fingerprint": (other_keys, "was cut or changed"),
    "a seed less": (lambda origin: edit(origin, seeds=[1]), "was cut or changed"),
    "lost": (Path.unlink, "is missing"),
}


@pytest.mark.parametrize(("damage", "words"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_origin_is_blamed_alone(
    run: Path, damage: Callable[[Path], None], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = load(run).read("rounds")
    damage(run / "origin.yaml")
    found, notes = load(run).read("rounds")
    pd.testing.assert_frame_equal(found, whole[0])
    assert notes[1:] == whole[1]
    assert seeds_of(run) == ALL
    with pytest.raises(RunFolderError, match=r"origin\.yaml: .*; restore it from a copy") as caught:
        fedsim.resume(run)
    assert words in str(caught.value)
    for text in everywhere(run, capsys):
        assert " ".join(str(caught.value).split()) in " ".join(text.split())
        assert "run/config.yaml" not in text
        assert "not the configuration" not in text
        assert "move it out" not in text
    shown = told("show", run, capsys)
    assert "repair what is damaged, then continue with: fedsim resume run" in shown


def test_an_origin_of_an_earlier_version_has_no_checksum(run: Path) -> None:
    origin = read_yaml(run / "origin.yaml")
    del origin["checksum"]
    write_yaml(run / "origin.yaml", origin)
    assert load(run).lost_plan() is None
    fedsim.resume(run, overrides=["seeds=0-2"])  # writes it anew
    assert "checksum" in read_yaml(run / "origin.yaml")
    assert load(run).lost_plan() is None


def test_seeds_that_a_resume_added_are_the_runs_own(run: Path) -> None:
    fedsim.resume(run, overrides=["seeds=0-2"])
    assert seeds_of(run) == [(label, seed) for label in "ab" for seed in (0, 1, 2)]
    assert {one.state for one in load(run).runs} == {"done"}
    edit(run / "config.yaml", seeds=[0, 1])
    with pytest.raises(RunFolderError, match=r"config\.yaml: .*lacks the run's seed 2"):
        fedsim.resume(run)


def test_free_settings_may_be_edited(run: Path) -> None:
    edit(run / "config.yaml", on_error={"retry": 3})
    assert {one.state for one in fedsim.resume(run).runs} == {"done"}


def test_controls_of_noise_are_the_runs_own(here: Path) -> None:
    run = fedsim.run(small("dp-fts-de", rounds=1, noise_control=True)).folder
    assert load(run).lost_plan() is None
    edit(run / "config.yaml", noise_control=False)
    assert "lacks the run's variant" in str(load(run).lost_plan())


MANIFESTS: dict[str, dict[str, Any]] = {
    "done": {"status": "done"},
    "direction": {"direction": "minimize"},
    "agents": {"agents": 2},
    "space": {"parameters": []},
    "rounds": {"rounds": 3},
}


@pytest.mark.parametrize("changes", MANIFESTS.values(), ids=MANIFESTS)
def test_a_manifest_that_was_changed_does_not_count(
    run: Path, changes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    points = load(run).read_best()[0]
    path = run / UNFINISHED / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    words = "run/b/seed-1/manifest.json: was changed after fedsim wrote it; remove it and resume"
    for text in everywhere(run, capsys):
        assert words in text
    assert load(run).read_best()[0] == tuple(
        one for one in points if (one.variant, one.seed) != ("b", 1)
    )
    one = listed(run)
    assert (one.status, one.rounds, one.variants, one.done) == ("damaged", ROUNDS, ("a", "b"), 3)
    with pytest.raises(RunFolderError, match="was changed after fedsim wrote it"):
        fedsim.resume(run)
    path.unlink()  # what it says
    again = fedsim.resume(run)
    assert {one.state for one in again.runs} == {"done"}
    assert again.runs[3].facts().direction == "maximize"


def test_done_without_an_outcome_is_damage(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RunFolder(run / UNFINISHED).update_manifest(status="done")
    words = "manifest.json: damaged: it says that the seed is done, but not how it ended"
    for text in everywhere(run, capsys):
        assert words in text
    assert listed(run).done == 3
    with pytest.raises(RunFolderError, match="but not how it ended; remove it and resume"):
        fedsim.resume(run)


def garble(seed: Path) -> None:
    lines = (seed / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (seed / "journal.jsonl").write_bytes(b"".join([*lines[:2], b"nonsense\n", *lines[3:]]))


def without_manifest(seed: Path) -> None:
    (seed / "manifest.json").unlink()


def garbled_manifest(seed: Path) -> None:
    (seed / "manifest.json").write_text("{")


@pytest.mark.parametrize("damage", [garble, without_manifest, garbled_manifest])
def test_runs_calls_damaged_what_show_calls_damaged(
    run: Path, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(run / UNFINISHED)
    assert "b, seed 1: damaged: " in told("show", run, capsys)
    one = listed(run)
    assert (one.status, one.rounds, one.variants, one.done) == ("damaged", ROUNDS, ("a", "b"), 3)
    assert str(one.reason) in told("show", run, capsys)


def test_folders_of_variants_that_were_swapped(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for source, target in (("a", "t"), ("b", "a"), ("t", "b")):
        (run / source).rename(run / target)
    words = "run/a: holds the variant b (variant.txt says so), which belongs into b"
    with pytest.raises(RunFolderError, match=r"run/a: holds the variant b \(variant.txt says so\)"):
        fedsim.resume(run)
    for text in everywhere(run, capsys):
        assert words in text
    assert seeds_of(run) == ALL


@pytest.mark.parametrize("label", ["b", "of another run"])
def test_a_variants_label_in_anothers_folder(
    run: Path, label: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = load(run).read("rounds")
    (run / "a/variant.txt").write_text(f"{label}\n")
    assert seeds_of(run) == ALL
    found, notes = load(run).read("rounds")
    pd.testing.assert_frame_equal(found, whole[0])
    assert notes[1:] == whole[1]
    words = f"run/a/variant.txt: says {label}, but the folder is that of a; remove variant.txt"
    for text in everywhere(run, capsys):
        assert words in text
        assert "copy" not in text
    with pytest.raises(RunFolderError, match=r"variant\.txt: says .*; remove variant\.txt"):
        fedsim.resume(run)
    (run / "a/variant.txt").unlink()  # what it says
    assert {one.state for one in fedsim.resume(run).runs} == {"done"}
    assert seeds_of(run) == ALL


def test_a_variants_label_in_a_run_without_variants(here: Path) -> None:
    run = fedsim.run(small(rounds=1, seeds=[0, 1]), out="run").folder
    (run / "variant.txt").write_text("b\n")
    assert [one.name for one in load(run).runs] == [f"random-search, seed {k}" for k in (0, 1)]
    assert load(run).lost_plan() is None


def test_a_damaged_checkpoint_is_named_once(run: Path) -> None:
    (run / UNFINISHED / "state/checkpoint.npz").write_bytes(b"x")
    with pytest.raises(RunFolderError) as caught:
        RunFolder(run / UNFINISHED).load_checkpoint()
    assert str(caught.value).count("checkpoint.npz") == 1
