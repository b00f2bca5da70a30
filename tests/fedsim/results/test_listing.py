"""The list of the runs under a folder."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedsim.errors import RunFolderError
from fedsim.files import read_yaml, write_yaml
from fedsim.record.locking import locked
from fedsim.record.runfolder import RunFolder
from fedsim.results.listing import RunSummary, list_runs
from fedsim.yamltext import format_yaml

CONFIG = {
    "name": "x",
    "scenario": {"name": "s:S"},
    "method": {"name": "ts"},
    "rounds": 4,
    "seeds": [0],
}


def make(folder: Path, *manifests: dict[str, object], label: str = "") -> Path:
    """Make a run folder, or a variant of one, with a seed per manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    known = read_yaml(folder / "config.yaml") if label and (folder / "config.yaml").exists() else {}
    variants = {**known.get("variants", {}), **({label: {}} if label else {})}
    seeds = [*range(max(1, len(manifests)))]
    write_yaml(folder / "config.yaml", {**CONFIG, "seeds": seeds, "variants": variants})
    write_yaml(folder / "origin.yaml", {"import_from": ".", "data_dir": None})
    base = folder / label
    for seed, manifest in enumerate(manifests):
        one = RunFolder(base / f"seed-{seed}")
        one.create(CONFIG)
        if manifest:
            one.update_manifest(**manifest)
    if label:
        (base / "variant.txt").write_text(f"{label}\n", "utf-8")
    return folder


def status(folder: Path) -> str:
    (found,) = list_runs(folder)
    return found.status


def test_a_finished_run(tmp_path: Path) -> None:
    times = {"started": "2026-01-01T10:00:00+00:00", "ended": "2026-01-01T11:00:00+00:00"}
    later = {"started": "2026-01-01T10:30:00+00:00", "ended": "2026-01-01T12:00:00+00:00"}
    run = make(tmp_path / "runs" / "x-1", {"status": "done", **times}, {"status": "done", **later})
    expected = RunSummary(
        folder=run,
        name="x",
        status="done",
        scenario="s:S",
        variants=("ts",),
        rounds=4,
        jobs=2,
        done=2,
        started=datetime(2026, 1, 1, 10, tzinfo=UTC),
        ended=datetime(2026, 1, 1, 12, tzinfo=UTC),
    )
    assert list_runs(tmp_path / "runs") == [expected]
    assert list_runs(run) == [expected]
    record = json.loads(json.dumps(expected.record()))
    assert record["folder"] == str(run)
    assert record["started"] == "2026-01-01T10:00:00+00:00"
    assert record["variants"] == ["ts"]


@pytest.mark.parametrize(
    ("manifests", "expected"),
    [
        (({"status": "done"}, {"status": "failed"}), "failed"),
        (({"status": "interrupted"}, {}), "interrupted"),
        (({"status": "running"}, {}), "stopped"),  # killed
        (({"status": "done"}, {}), "stopped"),
        (({}, {}), "not started"),
        ((), "not started"),
    ],
)
def test_the_status_of_unfinished_runs(
    tmp_path: Path, manifests: tuple[dict[str, object], ...], expected: str
) -> None:
    assert status(make(tmp_path / "x-1", *manifests)) == expected


def test_a_run_that_a_process_works_on_is_running(tmp_path: Path) -> None:
    run = make(tmp_path / "x-1", {"status": "running"}, {"status": "done"})
    with locked(run, 0):
        assert status(run) == "running"
    assert status(run) == "stopped"


def test_a_resumed_run_has_not_ended(tmp_path: Path) -> None:
    stopped = {"started": "2026-01-01T10:00:00+00:00", "ended": "2026-01-01T11:00:00+00:00"}
    (one,) = list_runs(make(tmp_path / "x-1", {"status": "running", **stopped}))
    assert one.ended is None


def test_reasons_and_variants(tmp_path: Path) -> None:
    run = make(tmp_path / "x-1", {"status": "failed", "reason": "no luck", "rounds": 9}, label="b")
    make(run, {"status": "done", "rounds": 3}, label="a")
    (one,) = list_runs(tmp_path)
    assert (one.variants, one.reason, one.rounds) == (("b", "a"), "no luck", 9)
    assert (one.done, one.jobs) == (1, 2)


def test_the_latest_is_first_and_what_never_started_is_last(tmp_path: Path) -> None:
    times = {"x-1": "2026-01-02T00:00:00+00:00", "x-2": "2026-01-01T23:00:00-02:00", "x-3": None}
    for name, time in times.items():
        make(tmp_path / name, {"status": "done", "started": time} if time else {})
    assert [run.folder.name for run in list_runs(tmp_path)] == ["x-2", "x-1", "x-3"]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.yaml", "a: ["),
        ("config.yaml", "rounds: 3"),
        ("config.yaml", format_yaml({**CONFIG, "rounds": "many"})),
        ("seed-0/manifest.json", "{"),
        ("seed-0/manifest.json", '{"started": "soon"}'),
    ],
)
def test_a_damaged_run_does_not_hide_the_others(tmp_path: Path, file: str, content: str) -> None:
    (make(tmp_path / "x-1", {}) / file).write_text(content, "utf-8")
    make(tmp_path / "x-2", {"status": "done"})
    found = {run.folder.name: run for run in list_runs(tmp_path)}
    assert found["x-1"].status == "damaged"
    assert found["x-1"].reason
    assert found["x-2"].status == "done"


def test_where_runs_are_looked_for(tmp_path: Path) -> None:
    make(tmp_path / "a" / "b" / "x-1", {})
    make(tmp_path / "a" / "b" / "c" / "too-deep", {})
    make(tmp_path / ".hidden" / "x-2", {})
    make(tmp_path / "a" / "b" / "x-1" / "inside", {})  # a run's own folders are not runs
    assert [run.folder for run in list_runs(tmp_path)] == [tmp_path / "a" / "b" / "x-1"]


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "runs" / "x-1", {})
    monkeypatch.setenv("HOME", str(tmp_path))
    assert [run.folder for run in list_runs("~/runs")] == [tmp_path / "runs" / "x-1"]


def test_variants_come_in_the_configurations_order(tmp_path: Path) -> None:
    order = ["z", "b", "a"]
    for label in ("a", "b", "b (noise only)", "z"):
        run = make(tmp_path / "x-1", {}, label=label)
    origin = {"import_from": ".", "data_dir": None, "variants": order}
    write_yaml(run / "origin.yaml", origin)
    assert list_runs(run)[0].variants == ("z", "b", "b (noise only)", "a")
    del origin["variants"]  # as earlier versions left it
    write_yaml(run / "origin.yaml", origin)
    write_yaml(run / "config.yaml", {**CONFIG, "variants": {key: {} for key in order}})
    assert list_runs(run)[0].variants == ("z", "b", "b (noise only)", "a")
    (run / "origin.yaml").write_text("- 1")  # damaged: the configuration still knows the order
    assert list_runs(run)[0].variants == ("z", "b", "b (noise only)", "a")
    (run / "config.yaml").write_text("- 1")  # so is this: nothing knows it
    assert list_runs(run)[0].variants == ("a", "b", "b (noise only)", "z")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").touch()
    with pytest.raises(RunFolderError, match=r"x\.yaml: expected a folder with runs, found a file"):
        list_runs(tmp_path / "x.yaml")


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="nowhere: expected a folder with runs"):
        list_runs(tmp_path / "nowhere")


@pytest.mark.parametrize("labels", [[""], ["a", "b"]])
def test_each_text_is_parsed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: list[str]
) -> None:
    for label in labels:
        make(tmp_path / "x-1", {"status": "done"}, {"status": "running"}, label=label)
    load, parsed = yaml.load, Counter[str]()

    def counted(text: str, loader: Any) -> Any:
        parsed[text] += 1
        return load(text, loader)

    monkeypatch.setattr(yaml, "load", counted)
    config = {**CONFIG, "name": f"never read before {labels}", "seeds": [0, 1]}
    write_yaml(tmp_path / "x-1" / "config.yaml", config)
    assert [run.name for run in list_runs(tmp_path)] == [config["name"]]
    assert list_runs(tmp_path) == list_runs(tmp_path)
    assert set(parsed.values()) == {1}
    write_yaml(tmp_path / "x-1" / "config.yaml", {**config, "name": "y"})
    assert [run.name for run in list_runs(tmp_path)] == ["y"]
