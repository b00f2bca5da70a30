"""Curves from run folders: regret or best observed value against rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedsim.errors import ConfigError, cannot_write
from fedsim.results.analysis import Run

LABELS = {"mean_simple_regret": "simple regret", "mean_best_observed": "best observed value so far"}


def plot_runs(runs: Sequence[Run], path: Path) -> Path:
    """Draw one curve per variant and run, and return the picture's path.

    A curve is the mean over seeds of the mean over agents; its band is one standard error over
    seeds (none for a single seed). Regret is drawn if all runs have it, else the best
    observed value.

    Args:
        runs: finished runs.
        path: the picture; its extension sets the format.

    Raises:
        ConfigError: if matplotlib does not know the format.
        RunFolderError: if a run is not finished, or the picture cannot be written.
    """
    tables = [(run, run.rounds) for run in runs]
    regret = all("mean_simple_regret" in rounds for _, rounds in tables)
    column = "mean_simple_regret" if regret else "mean_best_observed"
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for label, curve in _curves(tables, column):
        (line,) = axes.plot(curve.index, curve["mean"], label=label)
        if curve["sem"].notna().all():
            low, high = curve["mean"] - curve["sem"], curve["mean"] + curve["sem"]
            axes.fill_between(curve.index, low, high, alpha=0.25, color=line.get_color(), lw=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("round (0 is the initial design)")
    axes.set_ylabel(f"{LABELS[column]}, mean of agents")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:
        raise ConfigError(f"--out: {error}") from None
    except OSError as error:
        raise cannot_write(path, error, "make room, then draw it with `fedsim plot`") from error
    return path


def _curves(
    tables: Sequence[tuple[Run, pd.DataFrame]], column: str
) -> Iterator[tuple[str, pd.DataFrame]]:
    for run, rounds in tables:
        for variant, own in rounds.groupby("variant", sort=False):
            label = str(variant) if len(tables) == 1 else f"{variant} ({run.folder.name})"
            seeds = own["seed"].nunique()
            curve = own.groupby("round")[column].agg(["mean", "sem"])
            yield f"{label}, {seeds} seeds" if seeds > 1 else label, curve
