"""How a running run is shown: the bar and the lines of a log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedsim.cli.display import LiveDisplay
from fedsim.cli.notes import duration
from fedsim.config.model import Config, PrivacyConfig
from fedsim.config.spec import RunSpec
from fedsim.privacy.events import SubsampledGaussian
from fedsim.privacy.ledger import Ledger
from fedsim.record.progress import Progress
from fedsim.record.tally import Scores
from fedsim.running.jobs import Job
from fedsim.simulation.loop import Simulation

SPENT = Ledger.from_events([SubsampledGaussian(0.35, 1.0, 1.0)] * 40)
SOME = Progress(
    round=12,
    rounds=60,
    scores=Scores(mean_best_observed=0.8714, best_observed=0.9232, agents=29),
    spent=SPENT,
    agents=29,
    present=29,
    evaluations=377,
    evaluations_per_second=3.14,
)


@dataclass
class Clock:
    """A clock that only moves when the test sets it."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def job(seed: int = 0, **privacy: Any) -> Job:
    method = {"name": "dp-fts-de"}
    scenario = {"name": "landmine"}
    config = Config(scenario=scenario, method=method, rounds=60, privacy=PrivacyConfig(**privacy))
    spec = RunSpec(scenario, method, 60, seed, None)
    return Job("dp-fts-de", config, Simulation(spec, Path(f"seed-{seed}")))


class Screen:
    """A display of a job whose progress the test reports."""

    def __init__(self, *, terminal: bool, width: int = 100, height: int = 24) -> None:
        self.file, self.clock = StringIO(), Clock()
        console = Console(
            width=width,
            height=height,
            file=self.file,
            force_terminal=terminal,
            force_interactive=terminal,
            color_system=None,
        )
        self.display = LiveDisplay(console, self.clock)

    def drawn(self) -> list[str]:
        """Return the bars as they are now."""
        console = Console(width=self.display._console.width, file=StringIO())
        with console.capture() as capture:
            console.print(self.display.drawing())
        return [line.rstrip() for line in capture.get().splitlines()]

    def printed(self) -> list[str]:
        """Return the lines printed so far."""
        return self.file.getvalue().splitlines()

    def plan(self, jobs: int) -> None:
        self.display.planned(Path("run"), [job(seed) for seed in range(jobs)], "many")

    def report(self, after: float, round: int, seed: int = 0, **changes: Any) -> None:
        self.clock.now += after
        self.display.progress(job(seed), replace(SOME, round=round, **changes))


class TestBeforeRound0:
    def test_a_bar_tells_that_evaluations_are_made(self) -> None:
        screen = Screen(terminal=True, width=120)
        screen.report(0, -1, evaluations=0)
        assert screen.drawn() == []  # it has only started
        screen.report(5, -1, evaluations=120, failed=3)
        (line,) = screen.drawn()
        assert "0/60" in line
        assert "120 evaluations before round 0, 3 failed, 3.1 eval/s" in line
        assert line.endswith("-:--:--")
        screen.report(5, 0)
        (line,) = screen.drawn()
        assert "best observed" in line

    def test_a_log_says_so(self) -> None:
        screen = Screen(terminal=False)
        screen.display.started(job())
        screen.report(61, -1, evaluations=120)
        assert screen.printed() == ["dp-fts-de, seed 0: 120 evaluations before round 0, 3.1 eval/s"]


class TestBar:
    def test_it_fits_on_a_line_of_120_columns(self) -> None:
        screen = Screen(terminal=True, width=120)
        screen.report(0, 11)
        screen.report(60, 12)
        (line,) = screen.drawn()
        assert line.startswith("dp-fts-de, seed 0 ")
        assert line.endswith(" eval/s 0:48:00")
        for part in ("12/60", "best observed 0.923, mean of agents 0.871, ε ", "29 agents"):
            assert part in line

    def test_on_80_columns_nothing_is_lost(self) -> None:
        screen = Screen(terminal=True, width=80)
        screen.report(0, 12, present=27, failed=3)
        text = " ".join(" ".join(screen.drawn()).split())
        for part in (
            "dp-fts-de, seed 0",
            "12/60",
            "best observed 0.923, mean of agents",
            "0.871",
            "3.1 eval/s",
        ):
            assert part in text
        assert "…" not in text

    def test_epsilon_stands_beside_its_budget(self) -> None:
        screen = Screen(terminal=True, width=200)
        screen.display.progress(job(budget=9.5, delta=1e-5, accountant="rdp"), SOME)
        assert " of 9.5, 29 agents" in screen.drawn()[0]

    def test_time_left_is_of_rounds_that_take_minutes(self) -> None:
        screen = Screen(terminal=True)
        screen.report(500, 0)  # the initial design, however long it took
        assert screen.drawn()[0].endswith(" -:--:--")
        screen.report(240, 1)
        screen.report(360, 2)
        assert screen.drawn()[0].endswith(f" {duration(300 * 58)}")
        screen.clock.now += 100  # in the middle of a round
        assert screen.drawn()[0].endswith(f" {duration(300 * 58 - 100)}")

    def test_rounds_before_a_resume_do_not_count(self) -> None:
        screen = Screen(terminal=True)
        screen.report(1, 40)
        screen.report(300, 41)
        assert screen.drawn()[0].endswith(f" {duration(300 * 19)}")

    def test_a_late_round_is_not_due_in_the_past(self) -> None:
        screen = Screen(terminal=True)
        screen.report(0, 58)
        screen.report(1, 59)
        screen.clock.now += 50
        assert screen.drawn()[0].endswith(" 0:00:00")

    def test_a_finished_job_is_done(self) -> None:
        screen = Screen(terminal=True)
        screen.report(0, 0)
        screen.display.finished(job())
        assert screen.drawn()[0].endswith(" done")

    def test_a_terminal_gets_no_lines_beside_it(self) -> None:
        screen = Screen(terminal=True)
        screen.report(0, 0)
        screen.report(1000, 1)
        assert screen.printed() == []

    def test_what_keeps_it_waiting_stands_in_its_place(self) -> None:
        screen = Screen(terminal=True)
        screen.display.waiting(job(), "2 of 3 host actors have not started yet")
        (line,) = screen.drawn()
        assert "0/60 2 of 3 host actors have not started yet" in line
        screen.display.waiting(job(), "")
        assert screen.drawn() == []
        screen.report(0, 1)
        screen.display.waiting(job(), "a host is silent")
        assert "1/60 a host is silent" in screen.drawn()[0]
        screen.display.waiting(job(), "")
        assert "1/60 best observed" in screen.drawn()[0]


class TestManyJobs:
    """Ninety jobs, four at a time, on a terminal of 24 lines and 80 columns."""

    @pytest.fixture
    def screen(self) -> Screen:
        screen = Screen(terminal=True, width=80)
        screen.plan(90)
        return screen

    def test_one_bar_for_all_of_them(self, screen: Screen) -> None:
        assert screen.drawn() == ["0 of 90 jobs done          0 %  -:--:--"]
        for seed in range(4):
            screen.display.started(job(seed))
        screen.report(100, 60, seed=0)
        screen.display.finished(job(0))
        overall, *running, last = screen.drawn()
        # 61 of 90 x 61 rounds took 100 s.
        assert overall.split() == ["1", "of", "90", "jobs", "done", "1", "%", "2:28:20"]
        assert [line.partition(" 0/60 ")[0].rstrip() for line in running] == [
            f"dp-fts-de, seed {seed}" for seed in (1, 2, 3)
        ]
        assert last.startswith("dp-fts-de, seed 0 ")
        assert "60/60 best observed 0.923, ε " in last
        assert last.endswith(" done")

    def test_rounds_before_a_resume_do_not_count(
        self, screen: Screen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("seed-0").mkdir()
        Path("seed-0/journal.jsonl").touch()
        screen.report(0, 54, seed=0)
        assert screen.drawn()[0].endswith(" -:--:--")
        screen.report(10, 55, seed=0)
        assert screen.drawn()[0].endswith(f" {duration(10 * (90 * 61 - 56))}")

    def test_only_the_last_finished_are_shown(self, screen: Screen) -> None:
        for seed in range(10):
            screen.report(1, 60, seed, spent=Ledger())
            screen.display.finished(job(seed))
        overall, *finished = screen.drawn()
        assert overall.startswith("10 of 90 jobs done ")
        assert [line.split("━")[0].split()[-1] for line in finished] == ["7", "8", "9"]

    @pytest.mark.parametrize("label", ["a", "a label that is much longer than any terminal" * 3])
    def test_nothing_scrolls_away(self, screen: Screen, label: str) -> None:
        """Each job has one line, and there are never more than fit below the plan."""
        for seed in range(80):
            one = replace(job(seed), label=label)
            screen.display.started(one)
            screen.display.progress(one, replace(SOME, round=3, failed=12, spent=Ledger()))
            if seed < 10:
                screen.display.finished(one)
            lines = screen.drawn()
            assert len(lines) <= 24 - 8
            assert all(len(line) <= 80 for line in lines)
            assert "/60" in lines[1]
            assert "best observed 0.923" in lines[1]
            assert lines[1].endswith(("done", " -:--:--"))
        assert lines[-4] == "and 59 more"

    def test_variants_of_a_sweep_are_told_apart(self, screen: Screen) -> None:
        jobs = [
            replace(job(0), label=f"subregions=1, sampling_rate={rate}, length_scale={scale}")
            for rate in (0.25, 0.5)
            for scale in (0.05, 0.1)
        ]
        screen.display.planned(Path("runs/x-1"), jobs, "here")
        assert len({screen.display._name(one) for one in jobs}) == 4
        screen.display.started(jobs[1])
        assert screen.drawn()[1].startswith("0.25, 0.1 ")
        later = replace(job(7), label=jobs[0].label)  # one that was not planned
        screen.display.started(later)
        assert any(line.startswith("1, 0.25, 0.05, seed 7") for line in screen.drawn())

    def test_a_failed_job_is_marked(self, screen: Screen) -> None:
        screen.report(1, 5, seed=3)
        screen.display.failed(job(3))
        assert screen.drawn()[1].endswith(" failed")

    def test_a_log_gets_a_line_a_minute_for_all_of_them(self) -> None:
        screen = Screen(terminal=False)
        screen.plan(90)
        before = len(screen.printed())
        for seed in range(30):
            screen.report(5, 0, seed, spent=Ledger())
            screen.report(5, 60, seed, spent=Ledger())
            screen.display.finished(job(seed))
        lines = screen.printed()[before:]
        assert len(lines) == 5
        assert lines[0].startswith("5 of 90 jobs done; dp-fts-de, seed 5: round 60 of 60, best ob")
        assert lines[0].endswith(", 0:14:00 left")  # 84 of 90 jobs at 10 s each


def test_a_long_measuring_is_said() -> None:
    screen = Screen(terminal=False)
    screen.display.measuring()
    (line,) = screen.printed()
    assert line.startswith("measuring the first evaluation, to plan the run")


class TestLog:
    """When stdout is not a terminal."""

    def test_a_long_job_prints_a_line_a_minute(self) -> None:
        screen = Screen(terminal=False)
        for t in range(13):
            screen.report(20, t)
        lines = screen.printed()
        assert [line.split(",")[1] for line in lines] == [
            f" seed 0: round {t} of 60" for t in (2, 5, 8, 11)
        ]
        assert lines[0].endswith("29 agents, 3.1 eval/s, 0:19:20 left")

    def test_a_line_is_one_line_on_a_narrow_console(self) -> None:
        screen = Screen(terminal=False, width=40)
        screen.report(61, 0)
        (line,) = screen.printed()
        assert line.endswith("29 agents, 3.1 eval/s")  # how long it takes is not known yet

    def test_short_jobs_print_none_however_many(self) -> None:
        screen = Screen(terminal=False)
        for seed in range(20):
            screen.report(5, 0, seed)
            screen.report(5, 60, seed)
            screen.display.finished(job(seed))
        assert screen.printed() == []

    def test_the_same_round_is_not_told_twice(self) -> None:
        screen = Screen(terminal=False)
        screen.report(0, -1)
        for _ in range(3):
            screen.report(100, 5)
        assert len(screen.printed()) == 1
