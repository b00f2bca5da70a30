"""How a running run is shown: the bar and the lines of a log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedsim.cli.display import LiveDisplay, duration, progress_note
from fedsim.config.model import Config, PrivacyConfig
from fedsim.config.spec import RunSpec
from fedsim.jobs import Job
from fedsim.privacy.events import SubsampledGaussian
from fedsim.privacy.ledger import Ledger
from fedsim.record.progress import Progress
from fedsim.record.tally import Scores
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

    def __init__(self, *, terminal: bool, width: int = 100) -> None:
        self.file, self.clock = StringIO(), Clock()
        console = Console(width=width, file=self.file, force_terminal=terminal, color_system=None)
        self.display = LiveDisplay(console, self.clock)

    def drawn(self) -> list[str]:
        """Return the bars as they are now."""
        bars = self.display._bars.get_renderable()
        console = Console(width=self.display._console.width, file=StringIO())
        with console.capture() as capture:
            console.print(bars)
        return [line.rstrip() for line in capture.get().splitlines()]

    def printed(self) -> list[str]:
        """Return the lines printed so far."""
        return self.file.getvalue().splitlines()

    def report(self, after: float, round: int, seed: int = 0, **changes: Any) -> None:
        self.clock.now += after
        self.display.progress(job(seed), replace(SOME, round=round, **changes))


class TestNote:
    def test_all_is_well(self) -> None:
        expected = "best observed 0.923, mean of agents 0.871, ε 7.05, 29 agents, 3.1 eval/s"
        assert progress_note(SOME, "ε 7.05") == expected

    def test_absent_agents_and_failures(self) -> None:
        progress = replace(SOME, present=27, failed=3)
        assert "27 of 29 agents, 3 failed, 3.1 eval/s" in progress_note(progress, "")

    @pytest.mark.parametrize(
        ("speed", "shown"),
        [(12345.6, "12346"), (312.4, "312"), (31.4, "31"), (0.0123, "0.012"), (99.9, "100")],
    )
    def test_speeds_have_sensible_digits(self, speed: float, shown: str) -> None:
        assert progress_note(replace(SOME, evaluations_per_second=speed), "").endswith(
            f"29 agents, {shown} eval/s"
        )

    def test_what_is_not_known_is_not_told(self) -> None:
        nothing = Progress(0, 60, agents=29, present=0)
        assert progress_note(nothing, "") == "0 of 29 agents"

    def test_durations(self) -> None:
        assert [duration(x) for x in (0.4, 59.6, 3599, 360_000)] == [
            "0:00:00",
            "0:01:00",
            "0:59:59",
            "100:00:00",
        ]


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
