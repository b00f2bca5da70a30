"""What curves and comparisons show of a run: a score, of the best agent or as a mean of agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedsim.errors import ConfigError, nearest, of_option
from fedsim.means import means
from fedsim.record.timings import timings_of
from fedsim.results.entrants import REGRET, Entrant
from fedsim.results.seeds import SeedRun
from fedsim.space import Array

METRICS = {
    "simple_regret": "simple regret (best point evaluated)",
    "inference_regret": "inference regret (point an agent would choose)",
    "best_observed": "best observed value so far",
    "best_noiseless": "best noiseless value so far",
    "regret": "regret of the round's evaluations",
    "cumulative_regret": "cumulative regret of the queries",
    "uploaded_bytes": "bytes that an agent sent so far",
    "downloaded_bytes": "bytes that an agent received so far",
}
"""Scores of rounds, and how they are called on an axis."""

MEANS_ONLY = ("regret", "cumulative_regret", "uploaded_bytes", "downloaded_bytes")
"""Those that are known as means over agents only."""

TIMES = {
    "seconds": "wall seconds of the whole run",
    "cpu_seconds": "CPU seconds of the whole run",
    "method_cpu_seconds": "CPU seconds of the whole run without its evaluations",
}
"""What a whole seed took; see :class:`fedsim.record.timings.Timings`."""


@dataclass(frozen=True)
class Metric:
    """A score or a time.

    Attributes:
        name: one of :data:`METRICS` or :data:`TIMES`.
        best_agent: whether it is the best agent's, not the mean over agents.
    """

    name: str
    best_agent: bool = False

    @property
    def column(self) -> str:
        """Its column in the rounds' tables; of a time, its name."""
        return self.name if self.best_agent or self.name in TIMES else f"mean_{self.name}"

    @property
    def words(self) -> str:
        """What it is, as a text."""
        if self.name in TIMES:
            return TIMES[self.name]
        return f"{METRICS[self.name]}, {'best agent' if self.best_agent else 'mean of agents'}"

    def check_rounds(self, rounds: tuple[int, int] | None) -> None:
        """Raise ConfigError if rounds were asked for that a time does not have."""
        if rounds is not None and self.name in TIMES:
            raise of_option(
                "--rounds", ConfigError(f"rounds: {self.name} is of whole runs; leave rounds out")
            )


def sign_of(column: str, direction: str) -> float:
    """Return 1 if larger values of a column are better in a scenario of this direction, else -1."""
    smaller = column in TIMES or column.endswith(("regret", "bytes")) or direction == "minimize"
    return -1.0 if smaller else 1.0


def seed_scores(one: Entrant, columns: Sequence[str], first: int, last: int) -> pd.DataFrame:
    """Return a variant's scores, means over rounds, and times: one row per seed.

    Args:
        one: the variant; seeds that do not have all of the rounds are left out.
        columns: columns of the rounds' tables, or times; what is not known is NaN.
        first: the first round.
        last: the last round.
    """
    seeds = one.wide("evaluations", first, last).columns
    runs = {run.seed: run for run in one.seeds}
    found: dict[str, Array] = {}
    for name in columns:
        table = one.wide(name, first, last)
        if name in TIMES:
            found[name] = np.array([_seconds(runs[int(seed)], name) for seed in seeds])
        else:
            found[name] = means(table.to_numpy()) if len(table) else np.full(len(seeds), np.nan)
    return pd.DataFrame(found, index=seeds)


def lost_times(found: Sequence[Entrant]) -> list[str]:
    """Return a sentence for each seed whose times are incomplete: scores leave it out."""
    return [
        f"{run.name} is left out: {run.folder.timings} {lost}"
        for one in found
        for run in one.seeds
        if (lost := timings_of(run.folder).lost(run.facts().rounds + 1))
    ]


def _seconds(run: SeedRun, name: str) -> float:
    """Return a time of a whole seed; NaN if the times of some of its rounds are lost."""
    told = timings_of(run.folder)
    if told.lost(run.facts().rounds + 1):
        return np.nan
    if name == "seconds":
        return sum(seconds for _, seconds in told.round_seconds)
    evaluating = told.objective_seconds if name == "cpu_seconds" else 0.0
    return evaluating + told.other_seconds


def chosen_metric(
    given: str | None, found: Sequence[Entrant], *, best_agent: bool, times: bool = False
) -> Metric:
    """Return the metric that was asked for, by default one that all variants know.

    Args:
        given: its name; None: the simple regret if all know it, else the best observed value.
        found: the variants.
        best_agent: the best agent's, not the mean over agents.
        times: whether a time may be asked for.

    Raises:
        ConfigError: if there is no such metric, or none of the best agent.
    """
    if given is None:
        regret = all(one.metric == REGRET for one in found)
        return Metric("simple_regret" if regret else "best_observed", best_agent)
    name, known = given.replace("-", "_"), {**METRICS, **(TIMES if times else {})}
    if name not in known:
        raise of_option(
            "--metric", ConfigError(f"metric: unknown metric {given!r}{nearest(name, known)}")
        )
    if best_agent and name in (*MEANS_ONLY, *TIMES):
        whole = "of a whole run" if name in TIMES else "as a mean of agents"
        raise of_option(
            "--metric", ConfigError(f"metric: {name} is known {whole} only, not of the best agent")
        )
    return Metric(name, best_agent)
