"""A run that was killed anywhere resumes to the same journal, byte for byte."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.config.construct import build_scenario
from fedsim.config.model import parse_config
from fedsim.config.spec import RunSpec
from fedsim.errors import Interrupted, RunFolderError, UserCodeError
from fedsim.record.entries import Entry, ReleaseEntry, observations
from fedsim.record.journal import JournalReader, read_journal
from fedsim.record.progress import Progress
from fedsim.record.runfolder import Checkpoint, RunFolder
from fedsim.simulation.loop import Simulation
from fedsim.simulation.serial import run_serial
from fedsim.usercode.sources import UserCode
from tests.util.bowl import OURS
from tests.util.small import small

METHODS = ("random-search", "dp-fts-de")


def make(folder: Path, raw: dict[str, Any], **options: Any) -> Simulation:
    """Return a simulation whose folder exists."""
    code = UserCode.named_in(raw, [folder.parent])
    config = parse_config(raw, code)
    RunFolder(folder).create({})
    spec = RunSpec(config.scenario, config.method, config.rounds, 0, None, code)
    return Simulation(spec, folder, **options)


def run(simulation: Simulation, notify: Callable[[Progress], None] = lambda _: None) -> bytes:
    run_serial(simulation, build_scenario(simulation.spec), 60.0, notify)
    return RunFolder(simulation.folder).journal.read_bytes()


@pytest.fixture(scope="module", params=METHODS)
def finished(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Simulation, list[bytes]]:
    """A finished run and its checkpoints, one after each round."""
    simulation = make(tmp_path_factory.mktemp("whole") / "seed-0", small(request.param))
    path = simulation.folder / "state" / "checkpoint.npz"
    checkpoints: list[bytes] = []
    run(simulation, lambda progress: checkpoints.append(path.read_bytes()))
    return simulation, checkpoints


def lines_at(checkpoint: bytes, tmp_path: Path) -> int:
    folder = RunFolder(tmp_path / "probe")
    folder.create({})
    (folder.path / "state" / "checkpoint.npz").write_bytes(checkpoint)
    found = folder.load_checkpoint()
    assert found is not None
    return found.entries


def cuts(data: bytes) -> Iterator[int]:
    """Yield the end of every line, a place inside every line, and nothing at all."""
    yield 0
    end = 0
    for line in data.splitlines(keepends=True):
        yield end + len(line) // 2
        yield end + len(line) - 1  # all but the newline
        end += len(line)
        yield end


def test_there_is_a_checkpoint_after_every_round(
    finished: tuple[Simulation, list[bytes]], tmp_path: Path
) -> None:
    simulation, checkpoints = finished
    assert len(set(checkpoints)) == len(checkpoints) == simulation.spec.rounds + 1
    lines = len(list(read_journal(RunFolder(simulation.folder).journal)))
    assert lines_at(checkpoints[-1], tmp_path) == lines


def test_killed_anywhere_it_goes_on_to_the_same_journal(
    finished: tuple[Simulation, list[bytes]], tmp_path: Path
) -> None:
    """For every cut: with the last checkpoint that could be on disk then, and with none."""
    simulation, checkpoints = finished
    data = RunFolder(simulation.folder).journal.read_bytes()
    settled = [lines_at(checkpoint, tmp_path) for checkpoint in checkpoints]
    for number, cut in enumerate(cuts(data)):
        lines = data[:cut].count(b"\n") - 1
        possible = [c for c, needed in zip(checkpoints, settled, strict=True) if needed <= lines]
        for checkpoint in {possible[-1] if possible else None, None}:
            again = make(tmp_path / f"{number}-{checkpoint is None}" / "seed-0", small())
            again = Simulation(simulation.spec, again.folder)
            RunFolder(again.folder).journal.write_bytes(data[:cut])
            if checkpoint is not None:
                (again.folder / "state" / "checkpoint.npz").write_bytes(checkpoint)
            assert run(again) == data, f"cut at {cut}, checkpoint {checkpoint is not None}"


def test_a_crash_between_the_journal_and_the_checkpoint(
    finished: tuple[Simulation, list[bytes]], tmp_path: Path
) -> None:
    """The journal is a whole round ahead; nothing of it is evaluated again."""
    simulation, checkpoints = finished
    data = RunFolder(simulation.folder).journal.read_bytes()
    again = Simulation(simulation.spec, tmp_path / "seed-0")
    shutil.copytree(simulation.folder, again.folder)
    (again.folder / "state" / "checkpoint.npz").write_bytes(checkpoints[-2])
    RunFolder(again.folder).timings.unlink()
    assert run(again) == data
    timings = [json.loads(x) for x in RunFolder(again.folder).timings.read_text().splitlines()]
    calls = [line for line in timings if line["kind"] == "call"]
    assert [line["t"] for line in calls] == [simulation.spec.rounds]
    assert calls[0]["objective_cpu_seconds"] == 0.0


def test_a_finished_run_is_left_as_it_is(finished: tuple[Simulation, list[bytes]]) -> None:
    simulation, _ = finished
    data = RunFolder(simulation.folder).journal.read_bytes()
    seen: list[Progress] = []
    assert run(simulation, seen.append) == data
    assert seen == []


def test_a_journal_shorter_than_its_checkpoint_is_refused(
    finished: tuple[Simulation, list[bytes]], tmp_path: Path
) -> None:
    simulation, _ = finished
    again = Simulation(simulation.spec, tmp_path / "seed-0")
    shutil.copytree(simulation.folder, again.folder)
    journal = RunFolder(again.folder).journal
    data = journal.read_bytes()
    journal.write_bytes(data[: len(data) // 2])
    with pytest.raises(RunFolderError, match="the end of its journal is lost"):
        run(again)
    (again.folder / "state" / "checkpoint.npz").unlink()
    assert run(again) == data


class TestRecord:
    def test_the_progress_is_told_after_every_round(self, tmp_path: Path) -> None:
        seen: list[Progress] = []
        run(make(tmp_path / "seed-0", small("dp-fts-de", rounds=3)), seen.append)
        assert [p.round for p in seen] == [0, 1, 2, 3]
        assert [p.spent.releases for p in seen] == [1, 2, 3, 3]
        assert {(p.rounds, p.agents) for p in seen} == {(3, 3)}
        scores = [progress.scores for progress in seen]
        means = [one.mean_best_observed for one in scores if one.mean_best_observed is not None]
        assert len(means) == 4
        assert means == sorted(means)
        best = [one.best_observed for one in scores if one.best_observed is not None]
        assert all(one >= mean for one, mean in zip(best, means, strict=True))

    def test_the_best_goes_on_after_a_resume(self, tmp_path: Path) -> None:
        whole: list[Progress] = []
        run(make(tmp_path / "whole", small()), whole.append)
        simulation = make(tmp_path / "parts", small())

        def stop(progress: Progress) -> None:
            raise Interrupted("enough")

        with pytest.raises(Interrupted):
            run(simulation, stop)
        rest: list[Progress] = []
        run(simulation, rest.append)
        assert rest == whole[1:]

    def test_cpu_time_is_counted_once(self, tmp_path: Path) -> None:
        """The agents work in the server's thread; their time is not the server's."""
        raw = small("ts", rounds=3)
        raw["method"]["surrogate"] = {"fit_every": 1}
        simulation = make(tmp_path / "seed-0", raw)
        run(simulation)
        lines = [
            json.loads(x) for x in RunFolder(simulation.folder).timings.read_text().splitlines()
        ]
        agents = sum(line.get("agent_cpu_seconds", 0.0) for line in lines)
        server = sum(line.get("server_cpu_seconds", 0.0) for line in lines)
        assert 0 < server < agents

    def test_the_transcript_holds_what_the_server_received(self, tmp_path: Path) -> None:
        """Only releases, if there is an aggregator: no reply, no value, no roster."""
        simulation = make(tmp_path / "seed-0", small("dp-fts-de"), transcript=True)
        run(simulation)
        text = RunFolder(simulation.folder).transcript.read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        assert [set(line) for line in lines[:2]] == [{"kind", "t", "call", "release"}] * 2
        assert [set(line["release"]) for line in lines[:2]] == [{"vectors"}] * 2
        assert np.shape(lines[0]["release"]["vectors"]) == (2, 8)
        assert lines[2] == {"kind": "received", "t": 2, "call": 2, "replies": []}
        entries = list(read_journal(RunFolder(simulation.folder).journal))
        private = [x for _, record in observations(entries) for x in (record.y, record.noiseless)]
        private += [
            number
            for entry in entries
            if isinstance(entry, ReleaseEntry)
            for number in entry.experimenter.values()
        ]
        assert len(private) == 2 * 3 * 4 + 2
        assert all(json.dumps(number) not in text for number in private)


SERVER = """
    class Mine:
        def agent(self, agent): {agent}
        def server(self): {server}
    class Agent:
        def propose(self, step, message, rng): pass
        def observe(self, observations): pass
        def reply(self, request, rng): pass
    class Server:
        def start(self, fleet): {start}
        def round(self, t, fleet): {round}
        def state(self): return {state}
        def restore(self, state): pass
        @property
        def aggregators(self): return {aggregators}
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": "1 / 0"}, "the server failed to start: ZeroDivisionError"),
        ({"round": "1 / 0"}, "the server failed in round 0: ZeroDivisionError"),
        ({"state": "[1 / 0]"}, "the server failed to return its state: ZeroDivisionError"),
        ({"agent": "1 / 0"}, "agent 0 cannot be built: ZeroDivisionError"),
        ({"server": "1 / 0"}, "the server cannot be built: ZeroDivisionError"),
        ({"aggregators": "1 / 0"}, "the server cannot be built: ZeroDivisionError"),
    ],
)
def test_users_programs_that_raise_show_their_own_traceback(
    user_module: Callable[[str], str], here: Path, change: dict[str, str], message: str
) -> None:
    parts = {
        "agent": "return Agent()",
        "server": "return Server()",
        "start": "pass",
        "round": "pass",
    }
    parts |= {"state": "{}", "aggregators": "{}", **change}
    name = user_module(SERVER.format(**parts))
    raw = small()
    raw["method"] = {"name": f"{name}:Mine"}
    with pytest.raises(UserCodeError, match=message) as caught:
        run(make(here / "seed-0", raw))
    assert f"{name}.py" in caught.value.user_traceback
    assert not OURS.search(caught.value.user_traceback)


def test_checkpoints_are_plain_numbers(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.create({})
    folder.save_checkpoint(Checkpoint(1, 2, {"x": np.array(1.0)}, {"sum": {"y": np.array(2)}}))
    with np.load(folder.path / "state" / "checkpoint.npz", allow_pickle=False) as file:
        assert {name: file[name].dtype.kind for name in file.files} == {
            "counts": "i",
            "program/x": "f",
            "aggregators": "U",
            "aggregator/sum/y": "i",
        }


def test_a_resume_reads_the_journal_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = make(tmp_path / "seed-0", small())

    def stop(progress: Progress) -> None:
        if progress.round == 1:
            raise Interrupted("enough")

    with pytest.raises(Interrupted):
        run(simulation, stop)
    read, reading = JournalReader.read, list[int]()

    def counted(self: JournalReader) -> Iterator[Entry]:
        reading.append(1)
        return read(self)

    monkeypatch.setattr(JournalReader, "read", counted)
    run(simulation)
    assert len(reading) == 1
