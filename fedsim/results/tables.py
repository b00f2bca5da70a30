"""What a finished run leaves behind: its tables and its outcome, made from its journal.

Values are in the scenario's own sign and units. Where a scenario knows its optimum and its
noiseless values, the score is the **simple regret** (the optimum's distance from the best
noiseless value found so far, initial design included), else the best observed value so far.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedsim.privacy.accountants import (
    NEIGHBOURING_RELATION,
    SAMPLING,
    STRICT_DELTA,
    make_accountant,
    privacy_loss,
)
from fedsim.privacy.events import SubsampledGaussian
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import Scenario
from fedsim.record.journal import Line, Recorded, observations, read_journal
from fedsim.record.runfolder import RunFolder
from fedsim.record.timings import Timings, read_timings
from fedsim.space import Array


def finish(folder: RunFolder, scenario: Scenario, delta: float) -> dict[str, Any]:
    """Write a finished run's tables and return its outcome.

    Args:
        folder: the run's folder; its journal is complete.
        scenario: for parameter names, direction and optima.
        delta: δ of the reported ε; not used if nothing private was released.
    """
    lines = list(read_journal(folder.journal))
    observed = _observation_table(list(observations(lines)), scenario)
    rounds = _round_table(observed, folder.config()["rounds"], scenario)
    rounds = _with_privacy(rounds, lines, delta)
    observed.to_parquet(folder.path / "observations.parquet")
    rounds.to_parquet(folder.path / "rounds.parquet")
    return _outcome(folder, observed, rounds, lines, scenario, delta)


def _observation_table(
    evaluations: Sequence[tuple[int, Recorded]], scenario: Scenario
) -> pd.DataFrame:
    records = [record for _, record in evaluations]
    points = [scenario.space.to_point(np.array(r.u)) for r in records]
    columns: dict[str, Any] = {
        "agent": np.array([r.agent for r in records], dtype=int),
        "round": np.array([t for t, _ in evaluations], dtype=int),
        "step": np.array([r.step for r in records], dtype=int),
        "index": np.array([r.index for r in records], dtype=int),
        "source": [r.source for r in records],
        "y": np.array([r.y for r in records], dtype=float),
        "noiseless": np.array([r.noiseless for r in records], dtype=float),
    }
    for name in scenario.space.names:
        columns[f"point.{name}"] = [p[name] for p in points]
    table = pd.DataFrame(columns)
    optima = _optima(scenario)
    sign = 1.0 if scenario.direction == "maximize" else -1.0
    if optima is not None and not table["noiseless"].isna().any():
        table["regret"] = sign * (optima[table["agent"].to_numpy()] - table["noiseless"])
    return table


def _optima(scenario: Scenario) -> Array | None:
    if not hasattr(scenario, "optimum"):
        return None
    found = [scenario.optimum(agent) for agent in range(scenario.agents)]
    return None if any(x is None for x in found) else np.array(found, dtype=float)


def _round_table(observed: pd.DataFrame, rounds: int, scenario: Scenario) -> pd.DataFrame:
    """Return one row per round, those in which nobody observed anything included.

    Means are over the ``agents`` that have observed something by then: where some come late or
    never, means of different rounds or runs are of different agents. Without any they are NaN.
    """
    maximize = scenario.direction == "maximize"
    best = _best_so_far(observed, "y", rounds, maximize=maximize)
    table = pd.DataFrame(
        {
            "round": best.index,
            "mean_best": best.mean(axis=1),
            "best": best.max(axis=1) if maximize else best.min(axis=1),
            "agents": best.notna().sum(axis=1),
        }
    )
    if "regret" in observed:
        simple = _best_so_far(observed, "regret", rounds, maximize=False)
        table["mean_simple_regret"] = simple.mean(axis=1)
        table["best_simple_regret"] = simple.min(axis=1)
        table["mean_regret"] = observed.groupby("round")["regret"].mean()
        # An agent that was absent at first makes its initial design later: no query, either.
        queries = observed[observed["step"] > 0].groupby("round")["regret"].mean()
        table["mean_cumulative_regret"] = queries.reindex(table["round"]).fillna(0.0).cumsum()
    return table.reset_index(drop=True)


def _best_so_far(
    observed: pd.DataFrame, column: str, rounds: int, *, maximize: bool
) -> pd.DataFrame:
    """Return the best of a column by round 0 to ``rounds`` (rows) and agent (columns)."""
    found = observed.groupby(["round", "agent"])[column]
    table = (found.max() if maximize else found.min()).unstack().reindex(range(rounds + 1))
    return (table.cummax() if maximize else table.cummin()).ffill()


def _with_privacy(table: pd.DataFrame, lines: Sequence[Line], delta: float) -> pd.DataFrame:
    releases = [line for line in lines if "event" in line]
    if not releases:
        return table
    accountant, ledger = make_accountant("pld"), Ledger()
    epsilon, noise, before = [], [], -math.inf
    for t in table["round"]:
        ratio = math.nan  # of the last release, where a round has several
        for line in releases:
            if before < line["t"] <= t:  # also what was released before the first step
                ledger = ledger.charge(SubsampledGaussian.from_record(line["event"]))
                ratio = line.get("experimenter", {}).get("signal_to_noise", math.nan)
        before = t
        epsilon.append(privacy_loss(ledger, delta, accountant).epsilon)
        noise.append(ratio)
    table["epsilon_pld"] = epsilon
    table["signal_to_noise"] = noise
    return table


def epsilons(events: Sequence[SubsampledGaussian], delta: float) -> dict[str, Any]:
    """Return the total ε by accountant, with everything that a reader of ε must know.

    Args:
        events: all releases; none gives an empty report.
        delta: δ in (0, 1); ε at 1e-5 is reported beside it.
    """
    if not events:
        return {}
    ledger = Ledger.from_events(events)
    pld, rdp, moments = (make_accountant(name) for name in ("pld", "rdp", "moments"))
    report: dict[str, Any] = {
        "delta": delta,
        "releases": len(events),
        "neighbouring_relation": NEIGHBOURING_RELATION,
        "sampling": SAMPLING,
    }
    for accountant in (pld, rdp, moments):
        report[accountant.name] = privacy_loss(ledger, delta, accountant).epsilon
    report["pld_exact_multipliers"] = privacy_loss(ledger, delta, pld, "exact").epsilon
    report["delta_1e-5"] = {
        accountant.name: privacy_loss(ledger, STRICT_DELTA, accountant).epsilon
        for accountant in (pld, rdp)
    }
    return report


def _outcome(
    folder: RunFolder,
    observed: pd.DataFrame,
    rounds: pd.DataFrame,
    lines: Sequence[Line],
    scenario: Scenario,
    delta: float,
) -> dict[str, Any]:
    last = rounds.iloc[-1]
    regret = "mean_simple_regret" in rounds
    events = [SubsampledGaussian.from_record(x["event"]) for x in lines if "event" in x]
    timings = read_timings(folder.timings)
    outcome: dict[str, Any] = {
        "metric": "simple regret" if regret else "best value",
        "direction": scenario.direction,
        "best": _number(last["best_simple_regret" if regret else "best"]),
        "mean": _number(last["mean_simple_regret" if regret else "mean_best"]),
        "agents": scenario.agents,
        "agents_with_values": int(last["agents"]),
        "evaluations": len(observed),
        "evaluations_per_second": timings.evaluations_per_second(len(observed)),
        "epsilon": epsilons(events, delta),
        "objective_seconds": timings.objective_seconds,
        "other_seconds": timings.other_seconds,
        "journal_sha256": hashlib.sha256(folder.journal.read_bytes()).hexdigest(),
    }
    return {**outcome, **_mishaps(lines, timings)}


def _number(value: float) -> float | None:
    """Return a number as JSON knows it: None if there is none, as nothing was observed."""
    return None if math.isnan(value) else float(value)


def _mishaps(lines: Sequence[Line], timings: Timings) -> dict[str, Any]:
    """Return what did not happen, or went wrong; nothing of a run where nothing did."""
    steps = [line for line in lines if line["kind"] == "step"]
    failed = sum(len(line.get("failed", ())) for line in steps)
    counts = {
        "releases_refused": sum("refused" in line for line in lines),
        "absences": sum(len(line.get("absent", ())) for line in steps),
        "evaluations_failed": failed,
    }
    found: dict[str, Any] = {name: count for name, count in counts.items() if count}
    if failed:
        found["first_failure"] = timings.first_failure
    return found
