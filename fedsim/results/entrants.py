"""The variants that take part in a comparison: their seeds' rounds, and what may be compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fedsim.errors import RunFolderError
from fedsim.protocol import AgentId
from fedsim.record.manifest import Facts
from fedsim.record.origin import Origin
from fedsim.results.analysis import Run
from fedsim.results.naming import labels_of, run_names
from fedsim.results.scores import target_words
from fedsim.results.seeds import SeedRun, warnings_of

REGRET, VALUE = "mean_simple_regret", "mean_best_observed"
"""The metrics that variants are compared on: the first, if it is known."""


@dataclass(frozen=True, eq=False)
class Entrant:
    """One variant of one run.

    Attributes:
        label: what it is called.
        variant: its label in its own run.
        run: its run.
        run_name: what its run is called.
        seeds: its seeds that have something to show.
        direction: ``maximize`` or ``minimize``, of its scenario.
        agents: how many agents it has.
        targets: those whose results count; None: all.
        rounds: one row per seed and round.
        last: the last round that it has: its last one if some seed is done, else the last that
            half of its seeds have.
        planned: the last round that it will have.
        scenario: what seeds stand for; variants with the same share functions and noise. None if
            it is not known.
    """

    label: str
    variant: str
    run: Run
    run_name: str
    seeds: tuple[SeedRun, ...]
    direction: str
    agents: int
    targets: tuple[AgentId, ...] | None
    rounds: pd.DataFrame
    last: int
    planned: int
    scenario: str | None

    @property
    def whose(self) -> str:
        """Whose results count, in words."""
        if self.targets is None:
            return "all agents"
        return target_words(self.targets)

    @property
    def metric(self) -> str:
        """The mean simple regret if all of its seeds know it, else the mean best observed value."""
        if REGRET not in self.rounds:
            return VALUE
        known = self.rounds.groupby("seed")[REGRET].count() > 0
        return REGRET if known.all() else VALUE

    def wide(self, column: str, first: int, last: int) -> pd.DataFrame:
        """Return a column of the rounds' tables: one row per round, one column per seed.

        Args:
            column: its name; the table is empty if there is no such column.
            first: the first round.
            last: the last round; seeds that do not have it are left out.
        """
        if column not in self.rounds:
            return pd.DataFrame()
        whole = self.rounds.groupby("seed")["round"].transform("max") >= last
        chosen = self.rounds[whole & self.rounds["round"].between(first, last)]
        return chosen.pivot(index="round", columns="seed", values=column).astype(float)

    def left_out(self, last: int) -> str | None:
        """Return a sentence on the seeds that do not have a round, if there are some."""
        ends = self.rounds.groupby("seed")["round"].max()
        seeds = ", ".join(str(seed) for seed in ends[ends < last].index)
        return (
            f"{self.label}: seeds without all rounds to {last} are left out: {seeds}"
            if seeds
            else None
        )


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
    called = labels_of(runs, labels)
    for run, name, names in zip(runs, run_names(runs, labels), called, strict=True):
        rounds, incomplete = run.read("rounds")
        missing += incomplete if len(runs) == 1 else [f"{run.folder}: {s}" for s in incomplete]
        for variant, label in names.items():
            own = rounds[rounds["variant"] == variant]
            if len(own):
                shown = set(own["seed"])
                seeds = [one for one in run.runs if one.variant == variant and one.seed in shown]
                entrant = _entrant(label, own, tuple(seeds), run, name, alone=len(runs) == 1)
                found.append(entrant)
                missing += _remarks(entrant)
    return found, missing


def _entrant(
    label: str,
    rounds: pd.DataFrame,
    seeds: tuple[SeedRun, ...],
    run: Run,
    run_name: str,
    *,
    alone: bool,
) -> Entrant:
    facts: list[Facts] = [one.facts() for one in seeds]
    ends = sorted(rounds.groupby("seed")["round"].max(), reverse=True)
    last = int(ends[(len(ends) - 1) // 2])
    if any(one.status == "done" for one in seeds):
        last = facts[0].rounds
    return Entrant(
        label=label,
        variant=seeds[0].variant,
        run=run,
        run_name=run_name,
        seeds=seeds,
        direction=facts[0].direction,
        agents=facts[0].agents,
        targets=facts[0].targets,
        rounds=rounds,
        last=last,
        planned=facts[0].rounds,
        scenario=_scenario(seeds[0], run, alone=alone),
    )


def _remarks(one: Entrant) -> list[str]:
    """Return what of a variant's record is lost although its scores are there, in sentences.

    What the record itself warns of comes first.
    """
    named = {f"{one.label}, seed {seed.seed}": seed for seed in one.seeds}
    several = [(name, seed.lost_journal()) for name, seed in named.items()]
    found = [*warnings_of(named), *(f"{name}: {lost}" for name, lost in several if lost)]
    try:
        one.seeds[0].configuration()
    except RunFolderError as error:
        found.append(
            f"{one.label}: its settings are lost, so that it is compared like one of another "
            f"scenario, and not over problems: {error}"
        )
    return found


def _scenario(seed: SeedRun, run: Run, *, alone: bool) -> str | None:
    """Return a text that is equal for equal scenarios; None if it cannot be known."""
    try:
        config = seed.configuration()
        scenario: Any = config["scenario"]
        told = [scenario]
        if not alone and ":" in str(scenario["name"]):  # the same name may be other code
            told.append(_code(run, config))
        return json.dumps(told, sort_keys=True)
    except (RunFolderError, LookupError, TypeError, ValueError):
        return None


def _code(run: Run, config: Mapping[str, Any]) -> Any:
    """Return what tells a run's own code from another's: its modules, without the method's own."""
    origin = Origin.read(run.whole)
    if config["scenario"]["name"] in origin.given:  # in Python
        return origin.given[config["scenario"]["name"]]
    own, method = (str(config[k]["name"]).partition(":")[0] for k in ("scenario", "method"))
    if own not in origin.modules:  # of an earlier version, which did not keep the code
        return origin.import_from
    return {name: sha for name, sha in origin.modules.items() if name == own or name != method}
