"""A run's progress in a few words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedsim.cli.notes import duration, progress_note
from fedsim.record.progress import Progress
from fedsim.record.tally import Scores

SOME = Progress(
    round=12,
    rounds=60,
    scores=Scores(mean_best_observed=0.8714, best_observed=0.9232, agents=29),
    agents=29,
    present=29,
    evaluations=377,
    evaluations_per_second=3.14,
)


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
