"""Curves of single agents: a panel for each, with one curve per variant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedsim.arguments import TEXTS, WHOLES, as_plain, check_arguments
from fedsim.dashboards.curves import AXES, Axis, Chart, Curve, Panel, chart
from fedsim.errors import ConfigError, RunFolderError, of_option
from fedsim.means import means, standard_errors
from fedsim.protocol import AgentId
from fedsim.results.analysis import AnyRun, opened
from fedsim.results.entrants import Entrant, entrants
from fedsim.results.metrics import METRICS, chosen_metric
from fedsim.space import Array

MOST = 12
"""So many agents have a panel if it is not said which."""

OF_AGENTS = ("simple_regret", "inference_regret", "best_observed", "best_noiseless")
"""Scores that are known of a single agent."""

Evaluations = tuple[float, pd.DataFrame]
"""A seed's sign, 1 if larger values are better, else -1, and its evaluations from round 0 on."""


def facet_chart(
    *runs: AnyRun | Sequence[AnyRun],
    facet: str | None = None,
    agents: Sequence[AgentId] | None = None,
    metric: str | None = None,
    x: Axis = "rounds",
    best_agent: bool = False,
    labels: Sequence[str] | None = None,
) -> Chart:
    """Return curves, in panels by a configuration key or, if ``facet`` is ``agent``, by agent.

    Args:
        runs: runs, their folders, or lists of them.
        facet: a configuration key, ``agent``, or None.
        agents: with ``facet="agent"``, whose panels; see :func:`agents_chart`.
        metric: as in :func:`~fedsim.dashboards.curves.chart`, as all that follows.
        x: what the axis is; of single agents, rounds.
        best_agent: the best agent's value instead of the mean; not of single agents.
        labels: what the runs are called.

    Raises:
        ConfigError: if an argument is wrong, or no variant has what is asked for.
        RunFolderError: if a run has nothing to show.
    """
    if facet != "agent":
        if agents is not None:
            raise of_option("--agents", ConfigError('agents: expected with facet "agent" only'))
        return chart(*runs, metric=metric, x=x, best_agent=best_agent, facet=facet, labels=labels)
    if x != "rounds":
        raise of_option("--x", ConfigError(f"x: expected rounds with facet agent, got {x!r}"))
    if best_agent:
        words = "best_agent: does not go with facet agent, which shows each agent"
        raise of_option("--best-agent", ConfigError(words))
    return agents_chart(*runs, agents=agents, metric=metric, labels=labels)


def agents_chart(
    *runs: AnyRun | Sequence[AnyRun],
    agents: Sequence[AgentId] | None = None,
    metric: str | None = None,
    labels: Sequence[str] | None = None,
) -> Chart:
    """Return a panel for each agent, and in each one curve per variant: its own score so far.

    Args:
        runs: runs, their folders, or lists of them; they may be unfinished.
        agents: whose panels; by default the first 12, or of methods with targets the targets.
        metric: one of ``OF_AGENTS``; by default the simple regret if all know it, else the best
            observed value.
        labels: what the runs are called, one for each.

    Raises:
        ConfigError: if an argument is wrong, or no variant has such an agent or the metric.
        RunFolderError: if a run has nothing to show.
    """
    check_arguments(agents=(agents, WHOLES), labels=(labels, TEXTS))
    found, missing = entrants(opened(*runs), labels)
    name = chosen_metric(metric, found, best_agent=False).name
    if name not in OF_AGENTS:
        words = f"metric: expected one of {', '.join(OF_AGENTS)} of single agents, got {name!r}"
        raise of_option("--metric", ConfigError(words))
    shown, notes = _shown(found, as_plain(agents))
    notes = [*missing, *filter(None, (one.left_out(one.last) for one in found)), *notes]
    directions = {one.direction for one in found}
    panels: dict[tuple[AgentId, str], list[Curve]] = {}
    for one in found:
        tables, unread = _evaluations(one)
        notes += unread
        curves = _curves(one, tables, name, shown)
        for agent, curve in curves.items():
            panels.setdefault((agent, one.direction), []).append(curve)
        if not curves:
            notes.append(f"{one.label} is left out: it has no {name} of these agents")
    if not panels:
        told = ", ".join(map(str, shown))
        raise ConfigError(f"no variant has {name} of agents {told} to draw: {'; '.join(notes)}")
    return Chart(
        name,
        f"{METRICS[name]}, of the agent",
        AXES["rounds"],
        tuple(
            Panel(_title(agent, direction, directions), direction, tuple(own))
            for (agent, direction), own in sorted(panels.items(), key=lambda one: one[0])
        ),
        tuple(notes),
    )


def _title(agent: AgentId, direction: str, directions: set[str]) -> str:
    return f"agent {agent}" + (f", to {direction}" if len(directions) > 1 else "")


def _shown(
    found: Sequence[Entrant], asked: Sequence[AgentId] | None
) -> tuple[list[AgentId], list[str]]:
    """Return whose panels are drawn, ascending, and a note if others are left out."""
    most = max(one.agents for one in found)
    if asked is not None:
        wrong = [agent for agent in asked if not 0 <= agent < most]
        if wrong or not asked:
            got = ", ".join(map(str, wrong)) or "none"
            words = f"agents: expected some of 0 to {most - 1}, got {got}"
            raise of_option("--agents", ConfigError(words))
        return sorted(set(asked)), []
    whole = sorted({agent for one in found for agent in one.targets or range(one.agents)})
    if len(whole) <= MOST:
        return whole, []
    return whole[:MOST], [f"the first {MOST} of {len(whole)} agents; --agents chooses others"]


def _evaluations(one: Entrant) -> tuple[list[Evaluations], list[str]]:
    """Return what a variant's seeds that have all rounds evaluated, and what is left out."""
    whole = set(map(int, one.wide("evaluations", 0, one.last).columns))
    found, notes = [], []
    for run in one.seeds:
        if run.seed not in whole:
            continue
        try:
            table, sign = run.observations, run.facts().sign
        except RunFolderError as error:
            notes.append(f"{one.label}, seed {run.seed} is left out: {error}")
            continue
        found.append((sign, table[table["round"] >= 0]))  # helpers may have some from before
    return found, notes


def _curves(
    one: Entrant, tables: Sequence[Evaluations], name: str, shown: Sequence[AgentId]
) -> dict[AgentId, Curve]:
    """Return the curves of a variant's agents that have values."""
    found = {}
    for agent in shown:
        scores = [
            _so_far(table[table["agent"] == agent], name, sign, one.last) for sign, table in tables
        ]
        curve = _curve(one, np.array(scores).reshape(-1, one.last + 1).T)
        if curve is not None:
            found[agent] = curve
    return found


def _so_far(own: pd.DataFrame, name: str, sign: float, last: int) -> Array:
    """Return an agent's score after each round, shape (last + 1,); NaN where it has none.

    Args:
        own: its evaluations, in their order.
        name: the score.
        sign: 1 if larger values are better, else -1.
        last: the last round.
    """
    scores = np.full(last + 1, np.nan)
    column = {"best_observed": "y", "best_noiseless": "noiseless"}.get(name, "regret")
    if column not in own or not len(own):
        return scores
    values = own[column].to_numpy(dtype=float)
    # What the best so far is chosen by; larger is better.
    judged = own["y"] if name in ("best_observed", "inference_regret") else own["noiseless"]
    better = sign * judged.to_numpy(dtype=float)
    if np.isnan(better).any():
        return scores
    highest = np.maximum.accumulate(better)
    first = np.concatenate([[True], better[1:] > highest[:-1]])
    best = np.maximum.accumulate(np.where(first, np.arange(len(better)), 0))
    counts = np.searchsorted(own["round"].to_numpy(), np.arange(last + 1), side="right")
    started = counts > 0
    scores[started] = values[best[counts[started] - 1]]
    return scores


def _curve(one: Entrant, scores: Array) -> Curve | None:
    """Return the means over seeds of scores, shape (rounds, seeds); None if there are none."""
    if not scores.size:
        return None
    y, errors = means(scores, axis=1), standard_errors(scores, axis=1)
    drawn = np.isfinite(y)
    if not drawn.any():
        return None
    seeds = scores.shape[1]
    given: dict[str, Any] = {"variant": one.variant, "folder": str(one.run.folder), "seeds": seeds}
    return Curve(
        label=f"{one.label}, {seeds} seeds" if seeds > 1 else one.label,
        x=tuple(np.flatnonzero(drawn).astype(float).tolist()),
        y=tuple(y[drawn].tolist()),
        standard_error=tuple(np.nan_to_num(errors[drawn]).tolist()) if seeds > 1 else None,
        **given,
    )
