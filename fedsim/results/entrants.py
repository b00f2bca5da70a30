"""The variants that take part in a comparison: their seeds' rounds, and what may be compared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fedsim.errors import RunFolderError
from fedsim.files import read_yaml
from fedsim.record.manifest import Facts
from fedsim.results.analysis import Run
from fedsim.results.naming import labels_of
from fedsim.results.seeds import SeedRun

REGRET, VALUE = "mean_simple_regret", "mean_best_observed"


@dataclass(frozen=True, eq=False)
class Entrant:
    """One variant of one run.

    Attributes:
        label: what it is called.
        direction: ``maximize`` or ``minimize``, of its scenario.
        rounds: one row per seed and round.
        last: the last round that it has: its last one if some seed is done, else the last that
            half of its seeds have.
        scenario: what seeds stand for; variants with the same share functions and noise. None if
            it is not known.
    """

    label: str
    direction: str
    rounds: pd.DataFrame
    last: int
    scenario: str | None

    @property
    def metric(self) -> str:
        """The mean simple regret if all of its seeds know it, else the mean best observed value."""
        if REGRET not in self.rounds:
            return VALUE
        known = self.rounds.groupby("seed")[REGRET].count() > 0
        return REGRET if known.all() else VALUE

    def scores(self, first: int, last: int) -> pd.DataFrame:
        """Return the metrics' means over rounds, one row per seed that has all of them."""
        whole = self.rounds.groupby("seed")["round"].transform("max") >= last
        chosen = self.rounds[whole & self.rounds["round"].between(first, last)]
        columns = [name for name in (REGRET, VALUE) if name in chosen]
        return chosen.groupby("seed")[columns].mean()

    def shorter(self, last: int) -> list[int]:
        """Return the seeds that do not have a round."""
        ends = self.rounds.groupby("seed")["round"].max()
        return [int(seed) for seed in ends[ends < last].index]


def entrants(runs: Sequence[Run], labels: Sequence[str] | None) -> tuple[list[Entrant], list[str]]:
    """Return the variants of some runs, and a sentence for each seed that is incomplete.

    Args:
        runs: the runs; they may be unfinished.
        labels: what they are called, one for each, or None.

    Raises:
        ConfigError: if the labels do not tell the variants apart.
        RunFolderError: if a run has nothing to show.
    """
    found: list[Entrant] = []
    missing: list[str] = []
    for run, names in zip(runs, labels_of(runs, labels), strict=True):
        rounds, incomplete = run.read("rounds")
        missing += incomplete if len(runs) == 1 else [f"{run.folder}: {s}" for s in incomplete]
        for variant, label in names.items():
            own = rounds[rounds["variant"] == variant]
            if len(own):
                shown = set(own["seed"])
                seeds = [one for one in run.runs if one.variant == variant and one.seed in shown]
                found.append(_entrant(label, own, seeds, run, alone=len(runs) == 1))
    return found, missing


def _entrant(
    label: str, rounds: pd.DataFrame, seeds: Sequence[SeedRun], run: Run, *, alone: bool
) -> Entrant:
    facts: list[Facts] = [one.facts() for one in seeds]
    ends = sorted(rounds.groupby("seed")["round"].max(), reverse=True)
    last = int(ends[(len(ends) - 1) // 2])
    if any(one.status == "done" for one in seeds):
        last = facts[0].rounds
    return Entrant(label, facts[0].direction, rounds, last, _scenario(seeds[0], run, alone=alone))


def _scenario(seed: SeedRun, run: Run, *, alone: bool) -> str | None:
    """Return a text that is equal for equal scenarios; None if it cannot be known."""
    try:
        scenario: Any = seed.folder.config()["scenario"]
        told = [scenario]
        if not alone and ":" in str(scenario["name"]):  # whose class it is, depends on the folder
            told.append(read_yaml(run.whole / "origin.yaml").get("import_from"))
        return json.dumps(told, sort_keys=True)
    except (RunFolderError, LookupError, TypeError, ValueError):
        return None
