"""The curves of a picture: what is drawn, as data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedsim.arguments import TEXT, TEXTS, check_arguments
from fedsim.errors import ConfigError, nearest, of_option
from fedsim.keys import by_key
from fedsim.means import means, standard_errors
from fedsim.results.analysis import AnyRun, opened
from fedsim.results.entrants import Entrant, entrants
from fedsim.results.metrics import chosen_metric

Axis = Literal["rounds", "evaluations", "epsilon", "bytes"]

AXES: dict[Axis, str] = {
    "rounds": "round (0 is the initial design)",
    "evaluations": "evaluations per agent",
    "epsilon": "privacy loss ε",
    "bytes": "bytes that an agent sent and received",
}


@dataclass(frozen=True)
class Curve:
    """One variant: means over its seeds.

    Attributes:
        label: what it is called.
        variant: its label in its run.
        folder: its run's folder.
        seeds: how many seeds the means are over.
        x: shape (n,).
        y: shape (n,).
        standard_error: of ``y`` over seeds; None for one seed.
    """

    label: str
    variant: str
    folder: str
    seeds: int
    x: tuple[float, ...]
    y: tuple[float, ...]
    standard_error: tuple[float, ...] | None


@dataclass(frozen=True)
class Panel:
    """Curves that share axes: all of one direction.

    Attributes:
        title: what sets it apart; empty if there is only one.
        direction: ``maximize`` or ``minimize``.
        curves: its curves, in order.
    """

    title: str
    direction: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Chart:
    """All that is drawn.

    Attributes:
        metric: the column of the rounds' tables that ``y`` is the mean of.
        y_label: the same in words.
        x_label: what ``x`` is.
        panels: its parts.
        notes: what a reader must know: seeds and variants that are left out or incomplete.
    """

    metric: str
    y_label: str
    x_label: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return it as a JSON record."""
        return asdict(self)


def chart(
    *runs: AnyRun | Sequence[AnyRun],
    metric: str | None = None,
    x: Axis = "rounds",
    best_agent: bool = False,
    facet: str | None = None,
    labels: Sequence[str] | None = None,
) -> Chart:
    """Return the curves of runs: one per variant. Directions are never mixed in one panel.

    Args:
        runs: runs, their folders, or lists of them; they may be unfinished.
        metric: one of ``METRICS``; by default the simple regret if all know it, else the best
            observed value.
        x: ``rounds``, ``evaluations`` per agent, ``epsilon``, the privacy loss so far, or
            ``bytes``, what an agent sent and received so far.
        best_agent: the best agent's value instead of the mean over agents.
        facet: a configuration key, such as ``scenario.agents``: one panel for each of its values.
        labels: what the runs are called, one for each.

    Raises:
        ConfigError: if an argument is wrong, or no variant has what is asked for.
        RunFolderError: if a run has nothing to show.
    """
    check_arguments(metric=(metric, TEXT), x=(x, TEXT), facet=(facet, TEXT), labels=(labels, TEXTS))
    if x not in AXES:
        raise of_option("--x", ConfigError(f"x: unknown axis {x!r}{nearest(str(x), AXES)}"))
    found, missing = entrants(opened(*runs), labels)
    measured = chosen_metric(metric, found, best_agent=best_agent)
    name, column = measured.name, measured.column
    notes = [*missing, *filter(None, (one.left_out(one.last) for one in found))]
    curves = {one.label: _curve(one, column, x) for one in found}
    empty = [label for label, curve in curves.items() if curve is None]
    if len(empty) == len(found):
        words = {"epsilon": "ε", "bytes": "known bytes"}
        raise ConfigError(f"no variant has {words.get(x, name)} to draw")
    notes += [f"{label} is left out: it has no {_told(x, name)}" for label in empty]
    panels = _panels([one for one in found if one.label not in empty], curves, facet)
    return Chart(column, measured.words, AXES[x], panels, tuple(notes))


def _told(x: Axis, name: str) -> str:
    if x == "bytes":
        return "known bytes"
    return "ε (nothing private was released), or it is infinite" if x == "epsilon" else name


def _curve(one: Entrant, column: str, x: Axis) -> Curve | None:
    """Return a variant's curve; None if it has nothing to draw."""
    values, places = one.wide(column, 0, one.last), _places(one, x)
    if not len(values) or not len(places):
        return None
    y, errors, at = (
        means(values.to_numpy(), axis=1),
        standard_errors(values.to_numpy(), axis=1),
        means(places.to_numpy(), axis=1),
    )
    drawn = np.isfinite(y) & np.isfinite(at)
    if not drawn.any():
        return None
    seeds = values.shape[1]
    return Curve(
        label=f"{one.label}, {seeds} seeds" if seeds > 1 else one.label,
        variant=one.variant,
        folder=str(one.run.folder),
        seeds=seeds,
        x=tuple(at[drawn].tolist()),
        y=tuple(y[drawn].tolist()),
        standard_error=tuple(np.nan_to_num(errors[drawn]).tolist()) if seeds > 1 else None,
    )


def _places(one: Entrant, x: Axis) -> pd.DataFrame:
    """Return where a variant's rounds lie on the axis: one row per round, one column per seed."""
    if x == "rounds":
        counts = one.wide("evaluations", 0, one.last)
        rounds = np.repeat(counts.index.to_numpy(dtype=float)[:, None], counts.shape[1], axis=1)
        return pd.DataFrame(rounds, counts.index, counts.columns)
    if x == "evaluations" and one.targets is not None:
        return one.wide("target_evaluations", 0, one.last) / len(one.targets)
    if x == "evaluations":
        return one.wide("evaluations", 0, one.last) / one.agents
    if x == "bytes":
        up, down = (one.wide(f"mean_{way}loaded_bytes", 0, one.last) for way in ("up", "down"))
        return up + down
    columns = [str(name) for name in one.rounds if str(name).startswith("epsilon")]
    return one.wide(columns[0], 0, one.last) if columns else pd.DataFrame()


def _panels(
    found: Sequence[Entrant], curves: Mapping[str, Curve | None], facet: str | None
) -> tuple[Panel, ...]:
    labels = [one.label for one in found]
    values = dict.fromkeys(labels, "") if facet is None else _values(found, facet)
    parts: dict[tuple[str, str], list[Curve]] = {}
    for one in found:
        curve = curves[one.label]
        if curve is not None:
            parts.setdefault((values[one.label], one.direction), []).append(curve)
    directions = {direction for _, direction in parts}
    panels = []
    for (value, direction), own in sorted(parts.items(), key=lambda part: _order(part[0][0])):
        told = [f"{facet} = {value}"] if facet is not None else []
        told += [f"to {direction}"] if len(directions) > 1 else []
        panels.append(Panel(", ".join(told), direction, tuple(own)))
    return tuple(panels)


def _order(value: str) -> float:
    """Return what to sort a facet's values by: numbers by size, before all others in order."""
    try:
        return float(value)
    except ValueError:
        return math.inf


def _values(found: Sequence[Entrant], key: str) -> dict[str, str]:
    """Return the value of a configuration key of every variant, as text."""
    configs = {one.label: by_key(one.seeds[0].configuration()) for one in found}
    known = {name for config in configs.values() for name in config}
    if key not in known:
        raise of_option(
            "--facet", ConfigError(f"facet: no run has the key {key!r}{nearest(key, known)}")
        )
    return {label: str(config.get(key, "not set")) for label, config in configs.items()}
