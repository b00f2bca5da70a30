"""The status of unfinished runs, read from their folders."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.errors import RunFolderError
from fedsim.privacy.accountants import PrivacyLoss
from fedsim.record.locking import locked
from fedsim.record.progress import Progress
from fedsim.record.runfolder import RunFolder
from fedsim.record.tally import Scores
from fedsim.results.analysis import load
from fedsim.results.status import Status, StatusReader
from fedsim.yamltext import format_yaml
from tests.util.small import await_lines, journal_of, small

COMMAND = [sys.executable, "-c", "from fedsim.cli.main import main; main()"]
ROUNDS = 6

GATED = """
    import time
    from pathlib import Path
    from fedsim.space import Parameter, Space

    class Gated:
        '''Waits in the middle of round 2 until it is let on.'''

        space, direction, agents = Space((Parameter("x", 0, 1),)), "minimize", 3

        def objective(self, agent):
            calls = []

            def objective(point, rng):
                calls.append(point)
                while agent == 1 and len(calls) == 4 and not Path("go").exists():
                    time.sleep(0.01)
                if agent == 2 and len(calls) == 3:
                    raise ValueError("bad luck")
                return 10.0 * agent + point["x"]

            return objective
"""


def show(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    capsys.readouterr()
    assert run_command(("show", "runs/small-1", *options)) == 0
    return capsys.readouterr().out


def contents(folder: Path) -> dict[Path, tuple[bytes, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def only(folder: str = "runs/small-1") -> Status:
    (run,) = load(folder).runs
    return StatusReader(run).read()


@pytest.fixture
def waiting(here: Path, user_module: Callable[[str], str]) -> Iterator[subprocess.Popen[bytes]]:
    """A run in another process, of two seeds, that waits in the middle of the first's round 2."""
    raw = small("dp-fts-de", rounds=ROUNDS, on_error="skip", seeds=[0, 1], privacy={"delta": 1e-5})
    raw["scenario"] = {"name": f"{user_module(GATED)}:Gated"}
    Path("run.yaml").write_text(format_yaml(raw), "utf-8")
    command = [*COMMAND, "run", "run.yaml"]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(command, stdout=-1, stderr=-1, env=environment) as process:
        await_lines(Path("runs/small-1/seed-0/journal.jsonl"), 5)  # header, two rounds, releases
        await_lines(Path("runs/small-1/seed-0/state/evaluations.jsonl"), 2)
        yield process
        process.kill()


@pytest.mark.heavy
def test_a_run_that_runs_and_is_killed(
    waiting: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(Path("runs/small-1"))
    first, second = json.loads(show(capsys, "--json"))["runs"]
    assert contents(Path("runs/small-1")) == before
    assert (first["status"], second["status"]) == ("running", "waiting")
    assert (first["round"], first["rounds"]) == (1, ROUNDS)
    assert (first["agents"], first["agents_present"]) == (3, 3)
    assert (first["evaluations"], first["evaluations_under_way"]) == (8, 1)  # 3 * 2 + 3 - failed
    assert first["evaluations_failed"] == 1
    assert first["evaluations_per_second"] > 0
    assert first["epsilon"]["releases"] == 2
    assert first["epsilon"]["pld"] > 0
    assert first["seconds_left"] > 0
    assert (first["direction"], first["metric"]) == ("minimize", "best_observed")
    assert 0 <= first["best_observed"] < 1
    assert 10 <= first["mean_best_observed"] < 11
    assert (second["round"], second["best_observed"], second["seconds_left"]) == (-1, None, None)
    text = show(capsys)
    assert f"dp-fts-de, seed 0: running, 1 of {ROUNDS} rounds, best observed 0." in text
    assert "(pld, δ = 1e-05), 3 agents, 1 failed, " in text
    assert "8 evaluations, 1 more done in the next step, about 0:00:" in text
    assert f"seed 1: waiting, 0 of {ROUNDS} rounds\n" in text
    assert "resume" not in text

    waiting.kill()
    waiting.wait()
    text = show(capsys)
    assert f"dp-fts-de, seed 0: stopped, 1 of {ROUNDS} rounds, best observed 0." in text
    assert f"seed 1: not started, 0 of {ROUNDS} rounds\n" in text
    assert "continue with: fedsim resume runs/small-1" in text

    Path("go").touch()
    done = fedsim.resume("runs/small-1")
    assert [one["status"] for one in done.summaries()] == ["done", "done"]
    assert len(done.rounds) == 2 * (ROUNDS + 1)
    assert "continue with" not in show(capsys)


@pytest.fixture
def stopped(here: Path) -> Path:
    """The folder of a seed whose run was killed after its last round, before its tables."""
    (one,) = fedsim.run(small("dp-fts-de", rounds=3, privacy={"delta": 1e-3})).runs
    one.folder.update_manifest(status="running")
    return one.folder.path


def test_what_a_kill_tore_is_left_out(stopped: Path) -> None:
    (stopped / "state" / "checkpoint.npz").unlink()
    whole = only()
    for name in ("journal.jsonl", "timings.jsonl", "state/evaluations.jsonl"):
        with (stopped / name).open("a", encoding="utf-8") as file:
            file.write('{"kind":"step","t":9,"observ')
    found = only()
    assert found.lost == "the last line of its journal is incomplete; resume does that step again"
    assert replace(found, lost=None) == whole
    assert (whole.state, whole.progress.round, whole.seconds_left) == ("stopped", 3, 0.0)


def test_a_cut_journal_is_told(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = stopped / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0] + lines[1])
    assert only().lost == (
        "the end of its journal is lost: it has 1 of 7 entries; restore it from a copy, or remove "
        "manifest.json and state/checkpoint.npz beside it and resume the run, which does again "
        "what the journal lacks"
    )
    assert "the end of its journal is lost" in show(capsys)
    journal.unlink()
    assert (only().lost or "").startswith("its journal is missing; restore it")
    (stopped / "state" / "checkpoint.npz").write_bytes(b"garbage")
    journal.write_bytes(b"".join(lines))
    lost = only().lost or ""
    assert "checkpoint.npz: damaged (cannot be read" in lost
    assert lost.count("checkpoint.npz") == 1


def test_following_a_run_reads_each_entry_once(stopped: Path) -> None:
    journal = stopped / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    (run,) = load("runs/small-1").runs
    journal.write_bytes(b"")
    reader, rounds = StatusReader(run), list[int]()
    for line in lines:
        with journal.open("ab") as file:
            file.write(line)
        rounds.append(reader.read().progress.round)
        # Lines that were read are not read again, even if they change.
        journal.write_bytes(lines[0] + b"x" * (journal.stat().st_size - len(lines[0])))
    assert rounds == [-1, 0, 0, 1, 1, 2, 2, 3]
    journal.write_bytes(b"".join(lines))
    assert reader.read() == only()


def test_folders_of_earlier_versions_are_shown(stopped: Path) -> None:
    """Their manifests hold agents and direction only; what else is needed is in config.yaml."""
    whole = only()
    path = stopped / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    new = ("seed", "rounds", "optima", "delta", "accountant", "accounting", "checksum")
    path.write_text(json.dumps({k: v for k, v in manifest.items() if k not in new}), "utf-8")
    found = only()
    assert found.progress.scores.best_observed == whole.progress.scores.best_observed
    assert (found.state, found.privacy) == (whole.state, whole.privacy)


def append(journal: Path, line: dict[str, Any]) -> None:
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    journal.write_bytes(journal_of([*lines, line]))


def test_what_no_accountant_knows_is_not_hidden(stopped: Path) -> None:
    append(stopped / "journal.jsonl", {"kind": "release", "t": 3, "event": {"kind": "later"}})
    record = only().record()
    assert record["epsilon"] == {"releases": 4, "not_accounted": "later, subsampled-gaussian"}


def test_a_journal_of_other_agents_is_named(stopped: Path) -> None:
    other = {"kind": "step", "t": 3, "observations": [[7, 0, 0, [0.5], 1.0, None, "own"]]}
    append(stopped / "journal.jsonl", other)
    with pytest.raises(RunFolderError, match=r"expected agents 0 to 2 in round 3, got \[7\]"):
        only()


def test_a_finished_run_without_its_facts_is_damaged(stopped: Path) -> None:
    (stopped / "manifest.json").write_text('{"status": "done"}')
    with pytest.raises(RunFolderError, match=r"manifest\.json: damaged: agents is missing"):
        load("runs/small-1").summaries()


def test_half_a_header_is_no_journal_yet(stopped: Path) -> None:
    (stopped / "journal.jsonl").write_text('{"kind":"fedsim-jour')
    (stopped / "timings.jsonl").unlink()
    (stopped / "state" / "evaluations.jsonl").write_text("nonsense\n")
    found = only()
    assert found.progress.round == -1
    assert (found.under_way, found.privacy, found.seconds_left) == (0, None, None)


def test_it_tells_what_the_tables_tell_later(stopped: Path) -> None:
    found = only()
    last = load("runs/small-1").read("rounds")[0].iloc[-1]
    assert asdict(found.progress.scores) == {name: last[name] for name in asdict(Scores())}
    assert found.privacy is not None
    assert found.privacy.delta == 1e-3
    assert found.privacy.epsilon == last["epsilon_pld"]


def test_who_works_on_it(stopped: Path) -> None:
    assert only().state == "stopped"
    with locked(stopped.parent, 0):
        assert only().state == "waiting"
        with locked(stopped, 0):
            assert only().state == "running"
            assert only(str(stopped)).state == "running"


def test_a_reason_is_told_of_the_last_stop_only(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:

    def note(status: str) -> None:
        RunFolder(stopped).update_manifest(status=status, reason="stopped by Ctrl-C")

    note("interrupted")
    assert show(capsys).splitlines()[0].endswith("15 evaluations: stopped by Ctrl-C")
    note("running")  # resumed, and killed
    assert only().reason is None


def test_a_scenario_that_is_gone_is_not_missed(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No code that a folder names is run to show it."""
    config = stopped / "config.yaml"
    gone = config.read_text("utf-8").replace("name: synthetic", "name: gone:Gone")
    config.write_text(gone, "utf-8")
    found = only()
    assert found.direction == "maximize"
    assert (found.progress.agents, found.progress.evaluations) == (3, 15)
    assert found.privacy is not None
    (record,) = json.loads(show(capsys, "--json"))["runs"]
    assert record["best_observed"] >= record["mean_best_observed"]
    assert record["round"] == 3


def test_absent_agents_are_not_among_the_present(here: Path) -> None:
    (one,) = fedsim.run(small(rounds=3, availability=[1.0, 0.0, 1.0])).runs
    one.folder.update_manifest(status="running")
    progress = only().progress
    assert (progress.agents, progress.present, progress.evaluations) == (3, 2, 10)


@pytest.mark.heavy
def test_it_needs_no_pandas() -> None:
    code = "import sys, fedsim.cli.main, fedsim.results.status; assert 'pandas' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_infinite_loss_is_said_in_words() -> None:
    loss = PrivacyLoss(math.inf, 1e-3, "pld", source="no noise")
    status = Status("running", None, "maximize", Progress(rounds=3), 0, loss, None)
    epsilon = status.record()["epsilon"]
    assert (epsilon["pld"], epsilon["delta"], epsilon["source"]) == (None, 1e-3, "no noise")
    assert "infinite" in epsilon["infinite"]
    loss = PrivacyLoss(1.0, 0.1, "pld")
    finite = Status("running", None, "maximize", Progress(rounds=3), 0, loss, None)
    assert "infinite" not in finite.record()["epsilon"]
