"""The tables and the outcome of a finished run, made from its journal.

Values are in the scenario's own sign and units. :class:`fedsim.record.tally.Scores` says what the
columns of the rounds are. If a scenario knows its optimum and its noiseless values, the metric is
the simple regret, else the best observed value.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from fedsim.privacy.accountants import (
    NEIGHBOURING_RELATION,
    SAMPLING,
    STRICT_DELTA,
    make_accountant,
    privacy_loss,
    unsupported,
)
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import PrivacyEvent
from fedsim.record.entries import Entry, Recorded, ReleaseEntry, observations
from fedsim.record.journal import read_journal
from fedsim.record.manifest import Facts
from fedsim.record.runfolder import RunFolder
from fedsim.record.tally import Scores, Tally
from fedsim.record.timings import Timings, read_timings
from fedsim.space import Space


def finish(folder: RunFolder, space: Space) -> dict[str, Any]:
    """Write a finished run's tables and return its outcome.

    Args:
        folder: the run's folder; its journal is complete.
        space: for the parameters' names and units.
    """
    entries = list(read_journal(folder.journal))
    facts = Facts.of(folder)
    tally = facts.tally()
    scores = list(_scores_by_round(entries, tally, facts.rounds))
    observed = _observation_table(list(observations(entries)), space, facts, tally.knows_regret)
    rounds = _round_table(scores, observed, tally)
    rounds = _with_privacy(rounds, entries, facts.delta)
    observed.to_parquet(folder.path / "observations.parquet")
    rounds.to_parquet(folder.path / "rounds.parquet")
    return _outcome(folder, facts, tally, scores[-1], entries)


def _scores_by_round(entries: Sequence[Entry], tally: Tally, rounds: int) -> Iterator[Scores]:
    """Yield the scores after each round from 0 to ``rounds``; the tally then has all entries."""
    place = 0
    for t in range(rounds + 1):
        while place < len(entries) and entries[place].t <= t:  # they come in order
            tally.add(entries[place])
            place += 1
        yield tally.scores()


def _observation_table(
    evaluations: Sequence[tuple[int, Recorded]], space: Space, facts: Facts, regret: bool
) -> pd.DataFrame:
    records = [record for _, record in evaluations]
    points = [space.to_point(np.array(r.u)) for r in records]
    columns: dict[str, Any] = {
        "agent": np.array([r.agent for r in records], dtype=int),
        "round": np.array([t for t, _ in evaluations], dtype=int),
        "step": np.array([r.step for r in records], dtype=int),
        "index": np.array([r.index for r in records], dtype=int),
        "source": [r.source for r in records],
        "y": np.array([r.y for r in records], dtype=float),
        "noiseless": np.array([r.noiseless for r in records], dtype=float),
    }
    for p in space.parameters:
        values = [point[p.name] for point in points]
        texts = p.column == "text"
        columns[f"point.{p.name}"] = (
            [str(v) for v in values] if texts else np.array(values, p.column)
        )
    table = pd.DataFrame(columns)
    if regret:
        optima = np.array(facts.optima)[table["agent"].to_numpy()]
        table["regret"] = facts.sign * (optima - table["noiseless"])
    return table


def _round_table(scores: Sequence[Scores], observed: pd.DataFrame, tally: Tally) -> pd.DataFrame:
    """Return one row per round, including rounds without observations.

    Means are over the ``agents`` that have observed something so far: if some start late or never,
    means of different rounds or runs are over different agents. If there are none, they are NaN.
    """
    table = pd.DataFrame([asdict(one) for one in scores])
    names = table.columns.drop("agents")
    table[names] = table[names].astype(float)  # None is NaN
    known = {"observed": True, "noiseless": tally.knows_noiseless, "regret": tally.knows_regret}
    table = table.drop(columns=[n for n in names if not known[n.rpartition("_")[2]]])
    table.insert(0, "round", range(len(scores)))
    if not tally.knows_regret:
        return table
    by_round = observed.groupby("round")["regret"].mean()
    table["mean_regret"] = by_round.reindex(table["round"]).to_numpy()
    # An agent that was absent at first makes its initial design later: not a query, either.
    queries = observed[observed["step"] > 0].groupby("round")["regret"].mean()
    table["mean_cumulative_regret"] = (
        queries.reindex(table["round"]).fillna(0.0).cumsum().to_numpy()
    )
    return table


def _with_privacy(table: pd.DataFrame, entries: Sequence[Entry], delta: float) -> pd.DataFrame:
    releases = [e for e in entries if isinstance(e, ReleaseEntry) and e.event is not None]
    accountant, ledger = make_accountant("pld"), Ledger()
    charged = Ledger.from_events(e.event for e in releases if e.event is not None)
    if not releases or unsupported(charged, accountant):
        return table
    epsilon, noise, before = [], [], -math.inf
    for t in table["round"]:
        ratio = math.nan  # of the last release, if a round has several
        for release in releases:
            if before < release.t <= t and release.event:  # also releases before round 0
                ledger = ledger.charge(release.event)
                ratio = release.experimenter.get("signal_to_noise", math.nan)
        before = t
        epsilon.append(privacy_loss(ledger, delta, accountant).epsilon)
        noise.append(ratio)
    table["epsilon_pld"] = epsilon
    table["signal_to_noise"] = noise
    return table


def epsilons(events: Sequence[PrivacyEvent], delta: float) -> dict[str, Any]:
    """Return the total ε by accountant, with everything needed to interpret ε.

    Args:
        events: all charged releases; none gives an empty report.
        delta: δ in (0, 1); ε at 1e-5 is also reported.
    """
    if not events:
        return {}
    ledger = Ledger.from_events(events)
    pld, rdp, moments = (make_accountant(name) for name in ("pld", "rdp", "moments"))
    report: dict[str, Any] = {"delta": delta, "releases": len(events)}
    unknown = unsupported(ledger, pld)
    if unknown is not None:
        return {**report, "not_accounted": unknown.kind}
    report |= {"neighbouring_relation": NEIGHBOURING_RELATION, "sampling": SAMPLING}
    for accountant in (pld, rdp, moments):
        report[accountant.name] = privacy_loss(ledger, delta, accountant).epsilon
    report["pld_exact_multipliers"] = privacy_loss(ledger, delta, pld, "exact").epsilon
    report["delta_1e-5"] = {
        accountant.name: privacy_loss(ledger, STRICT_DELTA, accountant).epsilon
        for accountant in (pld, rdp)
    }
    return report


def _outcome(
    folder: RunFolder, facts: Facts, tally: Tally, last: Scores, entries: Sequence[Entry]
) -> dict[str, Any]:
    releases = [entry for entry in entries if isinstance(entry, ReleaseEntry)]
    events = [release.event for release in releases if release.event is not None]
    timings = read_timings(folder.timings)
    outcome: dict[str, Any] = {
        "metric": tally.metric,
        "direction": facts.direction,
        **asdict(last),
        "agents": facts.agents,
        "agents_with_values": last.agents,
        "evaluations": tally.evaluations,
        "evaluations_per_second": timings.evaluations_per_second(tally.evaluations),
        "epsilon": epsilons(events, facts.delta),
        "objective_seconds": timings.objective_seconds,
        "other_seconds": timings.other_seconds,
        "journal_sha256": hashlib.sha256(folder.journal.read_bytes()).hexdigest(),
    }
    return {**outcome, **_mishaps(releases, tally, timings)}


def _mishaps(releases: Sequence[ReleaseEntry], tally: Tally, timings: Timings) -> dict[str, Any]:
    """Return the nonzero counts of refused and empty releases, absences and failures."""
    counts = {
        "releases_refused": sum(release.refused for release in releases),
        "releases_empty": sum(release.empty for release in releases),
        "absences": tally.absences,
        "evaluations_failed": tally.failed,
    }
    found: dict[str, Any] = {name: count for name, count in counts.items() if count}
    if tally.failed:
        found["first_failure"] = timings.first_failure
    return found
