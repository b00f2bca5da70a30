"""How a finished run is shown on a terminal: the closing table and the privacy loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedsim.cli.display import rate


def closing_table(summaries: Sequence[dict[str, Any]]) -> Group:
    """Return the table of outcomes, and a line for each seed with failures or without values.

    The table has one row per variant, with means and standard errors over seeds.
    """
    failures = any(s.get("evaluations_failed") for s in summaries)
    private = any(s.get("epsilon") for s in summaries)
    metrics = sorted({s["metric"] for s in summaries if "metric" in s})
    table = Table(
        title=f"{' / '.join(metrics) or 'value'} after the last round",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    table.add_column("variant", overflow="fold")
    table.add_column("seeds", no_wrap=True)
    for name in ("mean of agents", "best agent"):
        table.add_column(name, justify="right")  # may wrap, the error below its mean
    names = [*(("ε", "at 1e-5") if private else ()), *(("failed",) if failures else ())]
    for name in (*names, "eval/s", "CPU s"):
        table.add_column(name, justify="right", no_wrap=True)
    for variant in dict.fromkeys(s["variant"] for s in summaries):
        own = [s for s in summaries if s["variant"] == variant]
        table.add_row(*_row(own, private, failures))
    warnings = [_failures(s) for s in summaries if s.get("evaluations_failed")]
    warnings += [_without_values(s) for s in summaries if _left_out(s)]
    return Group(table, *warnings)


def _row(seeds: Sequence[dict[str, Any]], private: bool, failures: bool) -> list[str]:
    done = [s for s in seeds if s["status"] == "done"]
    count = str(len(seeds)) if len(done) == len(seeds) else f"{len(done)} of {len(seeds)}"
    row = [escape(seeds[0]["variant"]), count]
    row += [_mean_and_error(_known(done, name)) for name in ("mean", "best")]
    if private:
        epsilon = done[0].get("epsilon", {}) if done else {}
        row += [_number(epsilon.get("pld")), _number(epsilon.get("delta_1e-5", {}).get("pld"))]
    if failures:
        row.append(str(sum(s.get("evaluations_failed", 0) for s in done)))
    rates = _known(done, "evaluations_per_second")
    row.append(rate(mean(rates)) if rates else "")
    row.append(f"{sum(s['objective_seconds'] + s['other_seconds'] for s in done):.1f}")
    return row


def _known(summaries: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [s[name] for s in summaries if s.get(name) is not None]


def _failures(summary: dict[str, Any]) -> Text:
    words = f"{summary['variant']}, seed {summary['seed']}: {summary['evaluations_failed']} "
    words += "evaluations failed and were skipped"
    first = summary["first_failure"]
    return Text(f"{words}; the first: {first}" if first else words, style="yellow")


def _left_out(summary: dict[str, Any]) -> int:
    return int(summary.get("agents", 0) - summary.get("agents_with_values", 0))


def _without_values(summary: dict[str, Any]) -> Text:
    words = f"{summary['variant']}, seed {summary['seed']}: the mean leaves out "
    words += f"{_left_out(summary)} of {summary['agents']} agents, which have no value"
    return Text(words, style="yellow")


def _mean_and_error(values: Sequence[float]) -> str:
    if not values:
        return ""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{mean(values):.4f} ±{stdev(values) / math.sqrt(len(values)):.4f}"


def privacy_sentence(epsilon: dict[str, Any]) -> str:
    """Return a run's ε with its meaning, as one sentence."""
    if "not_accounted" in epsilon:
        return (
            f"privacy: {epsilon['releases']} releases, of a kind that no accountant supports "
            f"({epsilon['not_accounted']}): ε is unknown."
        )
    return (
        f"privacy: ε = {epsilon['pld']:.2f} at δ = {epsilon['delta']:.2g} (accountant pld; the "
        f"paper's moments accountant says {epsilon['moments']:.2f}) for {epsilon['releases']} "
        f"releases; neighbours: {epsilon['neighbouring_relation']} of one agent; sampling: "
        f"{epsilon['sampling']}."
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
