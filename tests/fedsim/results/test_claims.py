"""Verdicts on claims, from runs with scores that are known."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from fedsim.errors import ConfigError
from fedsim.results.claims import judge
from fedsim.results.entrants import entrants
from fedsim.results.figures import Figure
from fedsim.results.significance import holm, student_p
from tests.util.runs import Scores, made_run

SPREAD = (0.0, 0.01, -0.01, 0.02, -0.02)
"""What is added to a gain, by seed: its standard error is 0.00707."""


def figure(*pairs: dict[str, Any], **more: Any) -> Figure:
    given = {"title": "a", "claim": "b", "configuration": "x", "comparisons": pairs, **more}
    return Figure.model_validate(given)


def regret(gain: float) -> Scores:
    return lambda seed, t: {"mean_simple_regret": 1.0 - gain - (SPREAD[seed] if gain else 0.0)}


@pytest.mark.parametrize(
    ("gain", "alike", "verdict"),
    [
        (0.1, False, "holds"),
        (-0.1, False, "does not hold: the opposite is shown"),
        (0.016, False, "not settled"),  # 2.26 standard errors
        (0.01, False, "does not hold"),
        (0.01, True, "no difference shown"),
        (-0.1, True, "does not hold: TS is better"),
        (0.1, True, "does not hold: FTS is better"),
    ],
)
def test_verdicts(here: Path, gain: float, alike: bool, verdict: str) -> None:
    run = made_run(here / "a", {"TS": regret(0.0), "FTS": regret(gain)}, seeds=5)
    asked = figure({"better": "FTS", "worse": "TS", "alike": alike})
    ((one,), rounds, notes) = judge(asked, entrants([run], None)[0])
    assert one.verdict == verdict
    assert (rounds, notes) == ((1, 4), [])
    error = math.sqrt(0.00025 / 5)
    assert one.difference.gain == pytest.approx(gain)
    assert one.difference.standard_error == pytest.approx(error)
    assert one.difference.p_corrected == pytest.approx(student_p(gain, error, 4))
    assert one.score[0] == pytest.approx(1.0 - gain)
    assert one.other_score == (1.0, 0.0)


def test_p_values_are_corrected_for_all_claims_of_a_figure(here: Path) -> None:
    variants = {"TS": regret(0.0), "FTS": regret(0.03), "DE": regret(0.02)}
    run = made_run(here / "a", variants, seeds=5)
    asked = figure({"better": "FTS", "worse": "TS"}, {"better": "DE", "worse": "TS"})
    judged, _, _ = judge(asked, entrants([run], None)[0])
    p_values = [one.difference.p_value for one in judged]
    assert [one.difference.p_corrected for one in judged] == pytest.approx(holm(p_values))


def test_a_shorter_run_is_judged_on_the_rounds_that_it_has(here: Path) -> None:
    run = made_run(here / "a", {"TS": regret(0.0), "FTS": regret(0.1)}, seeds=1)
    asked = figure({"better": "FTS", "worse": "TS"}, rounds=[20, 40])
    ((one,), rounds, _) = judge(asked, entrants([run], None)[0])
    assert rounds == (4, 4)
    assert one.verdict == "one seed: no verdict"


def test_claims_about_times_and_messages_beside_those_about_scores(here: Path) -> None:
    def sending(sent: float) -> Scores:
        return lambda seed, t: {**regret(0.0)(seed, t), "mean_uploaded_bytes": sent}

    run = made_run(here / "a", {"FTS": sending(10.0), "TAF": sending(100.0)}, seeds=3)
    for one in run.runs:
        seconds = one.seed + (2.0 if one.variant == "FTS" else 10.0 + 0.1 * one.seed)
        lines = [{"kind": "round", "t": t, "seconds": 1.0} for t in range(5)]
        lines.append({"kind": "call", "agent_cpu_seconds": seconds, "request": None})
        one.folder.timings.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    pair = {"better": "FTS", "worse": "TAF"}
    asked = figure(
        pair, {**pair, "metric": "uploaded_bytes"}, metric="method_cpu_seconds", rounds=[4, 4]
    )
    (times, sent), _, _ = judge(asked, entrants([run], None)[0])
    assert (times.score[0], times.other_score[0]) == pytest.approx((3.0, 11.1))
    assert (times.difference.metric, times.verdict) == ("method_cpu_seconds", "holds")
    assert (sent.score[0], sent.other_score[0], sent.difference.gain) == (10.0, 100.0, 90.0)
    assert (sent.difference.metric, sent.verdict) == ("mean_uploaded_bytes", "holds")


def test_a_run_of_something_else_is_refused(here: Path) -> None:
    run = made_run(here / "a", {"TS": regret(0.0), "FTS": regret(0.1)})
    with pytest.raises(ConfigError, match=r"compares 'FTS-DE', which the run does not have.*FTS"):
        judge(figure({"better": "FTS-DE", "worse": "TS"}), entrants([run], None)[0])
