"""Evaluations that the journal does not have yet are not lost, and never used for another call."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.errors import DiskError, ObjectiveError, RunFolderError
from fedsim.protocol import Proposal
from fedsim.record.entries import Recorded, observations
from fedsim.record.evaluationlog import EvaluationLog
from fedsim.record.journal import read_journal
from fedsim.record.runfolder import RunFolder
from tests.util.small import make, run, small

PROPOSAL = Proposal(np.array([0.25, 1 / 3]), "own")
RECORD = Recorded(1, 2, 3, (0.25, 1 / 3), 0.1, None, "own")

RUN = "fingerprint"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "evaluations.jsonl"


def test_what_cannot_be_opened_now_is_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = written(path, RECORD)

    def refuse(self: Path) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched, closing(EvaluationLog(path, RUN)) as log:
        patched.setattr(Path, "read_bytes", refuse)
        with pytest.raises(DiskError, match="Too many open files; raise the limit"):
            log.begin(7)
    assert path.read_bytes() == kept


def written(path: Path, *records: Recorded, settled: int = 7) -> bytes:
    """Write a log like a run that was then killed; return the file's content."""
    with closing(EvaluationLog(path, RUN)) as log:
        log.begin(settled)
        for record in records:
            log.add(record)
    return path.read_bytes()


@pytest.fixture
def reopened(path: Path) -> Iterator[Callable[..., EvaluationLog]]:
    """A function that opens the file again, for a call."""
    opened = []

    def reopen(settled: int = 7) -> EvaluationLog:
        log = EvaluationLog(path, RUN)
        opened.append(log)
        log.begin(settled)
        return log

    yield reopen
    for log in opened:
        log.close()


Reopen = Callable[..., EvaluationLog]


class TestFile:
    def test_what_was_added_is_found_exactly(self, path: Path, reopened: Reopen) -> None:
        other = Recorded(1, 2, 4, (0.0, 1.0), 2.0, 2.5, "initial")
        written(path, RECORD, other)
        log = reopened()
        assert log.find(1, 2, 3, PROPOSAL) == RECORD
        assert log.find(1, 2, 4, Proposal(np.array([0.0, 1.0]), "initial")) == other

    def test_it_goes_on_where_it_was(self, path: Path, reopened: Reopen) -> None:
        before = written(path, RECORD)
        again = reopened()
        again.add(Recorded(0, 0, 0, (0.5,), 1.0, None, "own"))
        assert path.read_bytes().startswith(before)
        third = reopened()
        assert third.find(1, 2, 3, PROPOSAL) == RECORD
        assert third.find(0, 0, 0, Proposal(np.array([0.5]), "own")) is not None

    @pytest.mark.parametrize(
        ("place", "proposal"),
        [
            ((0, 2, 3), PROPOSAL),
            ((1, 1, 3), PROPOSAL),
            ((1, 2, 0), PROPOSAL),
            ((1, 2, 3), Proposal(np.array([0.25, 1 / 3 + 1e-16]), "own")),
            ((1, 2, 3), Proposal(np.array([0.25]), "own")),
            ((1, 2, 3), Proposal(np.array([0.25, 1 / 3]), "server")),
        ],
    )
    def test_nothing_else_is_taken_for_it(
        self, path: Path, reopened: Reopen, place: tuple[int, int, int], proposal: Proposal
    ) -> None:
        written(path, RECORD)
        log = reopened()
        assert log.find(1, 2, 3, PROPOSAL) == RECORD
        assert log.find(*place, proposal) is None

    @pytest.mark.parametrize("settled", [0, 6, 8])
    def test_another_call_forgets(self, path: Path, reopened: Reopen, settled: int) -> None:
        written(path, RECORD)
        assert reopened(settled).find(1, 2, 3, PROPOSAL) is None
        assert reopened(7).find(1, 2, 3, PROPOSAL) is None  # the file has forgotten it, too
        assert b"evaluation" not in path.read_bytes()

    def test_the_next_call_forgets_and_the_same_does_not(self, path: Path) -> None:
        with closing(EvaluationLog(path, RUN)) as log:
            log.begin(7)
            log.add(RECORD)
            first = path.read_bytes()
            log.begin(7)  # as for each agent of a group
            log.add(RECORD)
            assert path.read_bytes().startswith(first)
            log.begin(8)
            assert log.find(1, 2, 3, PROPOSAL) is None
            log.add(RECORD)
        assert path.read_bytes() == written(path.with_name("other"), RECORD, settled=8)

    def test_it_survives_a_kill_at_any_byte(self, path: Path, reopened: Reopen) -> None:
        """Complete lines count, an incomplete one is removed, and later lines are complete."""
        other = Recorded(0, 0, 0, (0.5,), 1.0, None, "own")
        data = written(path, RECORD)
        lines = data.splitlines(keepends=True)
        for cut in range(len(data)):
            path.write_bytes(data[:cut])
            log = reopened()
            assert log.find(1, 2, 3, PROPOSAL) is None
            log.add(other)
            assert path.read_bytes().startswith(lines[0]), cut
            found = reopened().find(0, 0, 0, Proposal(np.array([0.5]), "own"))
            assert found == other, cut

    def test_another_runs_evaluations_are_not_taken_up(self, path: Path) -> None:
        written(path, RECORD)
        with closing(EvaluationLog(path, "other settings")) as log:
            log.begin(7)
            assert log.find(1, 2, 3, PROPOSAL) is None

    @pytest.mark.parametrize(
        "damage",
        [
            b"",
            b"\n",
            b"nonsense\n",
            b"\xff\xfe\x00\n",
            b"[]\n",
            b"7\n",
            b'{"settled":7}\nnonsense\n',
            b'{"settled":7}\n[1]\n',
            b'{"settled":7}\n5\n',
            b'{"settled":7}\n{}\n',
            b'{"settled":7}\n{"evaluation":[1]}\n',
            b'{"settled":7}\n{"evaluation":null}\n',
        ],
    )
    def test_a_damaged_file_counts_as_none(
        self, path: Path, reopened: Reopen, damage: bytes
    ) -> None:
        path.write_bytes(damage)
        log = reopened()
        assert log.find(1, 2, 3, PROPOSAL) is None
        log.add(RECORD)
        assert reopened().find(1, 2, 3, PROPOSAL) == RECORD
        assert path.read_bytes() == written(path.with_name("new"), RECORD)

    def test_a_file_that_cannot_be_written_is_an_error(self, path: Path, tmp_path: Path) -> None:
        path.mkdir()
        with pytest.raises(RunFolderError, match="cannot be written"):
            EvaluationLog(path, RUN).begin(0)
        with pytest.raises(RunFolderError, match="cannot be written"):
            EvaluationLog(tmp_path / "no" / "folder", RUN).begin(0)


USERS = """
    from pathlib import Path
    from fedsim.methods.random_search import RandomSearch, SilentServer
    from fedsim.space import Parameter, Space

    class Mine:
        space, direction, agents = Space((Parameter("x", 0, 1),)), "maximize", 3

        def objective(self, agent):
            def objective(point, rng):
                with open("calls", "a") as file:
                    print(agent, point["x"], file=file)
                trouble = Path("trouble")
                number = len(Path("calls").read_text().splitlines())
                if trouble.exists() and number == int(trouble.read_text()):
                    raise ValueError("broken")
                return point["x"] + rng.normal()
            return objective

    class Twice(RandomSearch):
        def server(self):
            return Server()

    class Server(SilentServer):
        def round(self, t, fleet):
            fleet.step(t, None, to=fleet.members[:1])
            fleet.step(t, None, to=fleet.members[1:])
            return {}
"""


def calls() -> list[str]:
    """Return the evaluations made so far, and clear them."""
    path = Path("calls")
    found = path.read_text().splitlines()
    path.unlink()
    return found


class TestRun:
    @pytest.fixture(params=["random-search", "dp-fts-de", "Twice"])
    def raw(
        self, here: Path, user_module: Callable[[str], str], request: pytest.FixtureRequest
    ) -> dict[str, Any]:
        module = user_module(USERS)
        raw = small("random-search" if request.param == "Twice" else request.param)
        if request.param == "Twice":
            raw["method"] = {"name": f"{module}:Twice", "initial_points": 2}
        raw["scenario"] = {"name": f"{module}:Mine"}
        return raw

    def test_a_stopped_step_goes_on_where_it_was(self, here: Path, raw: dict[str, Any]) -> None:
        """If any evaluation fails, only that one is made twice."""
        journal = run(make(here / "whole", raw))
        undisturbed = calls()
        last = len(undisturbed)
        for number in (1, 4, 6, 7, last - 1, last):  # ends, insides and beginnings of steps
            Path("trouble").write_text(str(number))
            simulation = make(here / str(number), raw)
            with pytest.raises(ObjectiveError, match="broken"):
                run(simulation)
            assert calls() == undisturbed[:number]
            Path("trouble").unlink()
            assert run(simulation) == journal
            assert calls() == undisturbed[number - 1 :]

    def test_a_torn_line_costs_one_evaluation(self, here: Path, raw: dict[str, Any]) -> None:
        journal = run(make(here / "whole", raw))
        undisturbed = calls()
        Path("trouble").write_text("5")
        simulation = make(here / "torn", raw)
        with pytest.raises(ObjectiveError):
            run(simulation)
        Path("trouble").unlink()
        calls()
        path = RunFolder(simulation.folder).evaluations
        path.write_bytes(path.read_bytes()[:-9])
        assert run(simulation) == journal
        assert calls() == undisturbed[3:]

    def test_others_files_are_not_taken_up(self, here: Path, raw: dict[str, Any]) -> None:
        """Evaluations at other points, as of another seed: none is used."""
        simulation = make(here / "whole", raw)
        journal = run(simulation)
        undisturbed = calls()
        again = make(here / "again", raw)
        stray = [
            Recorded(a, 0, i, (0.123,), 9.0, None, "initial") for a in range(3) for i in range(2)
        ]
        written(RunFolder(again.folder).evaluations, *stray, settled=0)
        assert run(again) == journal
        assert calls() == undisturbed
        made = observations(read_journal(RunFolder(again.folder).journal))
        assert 9.0 not in [record.y for _, record in made]
