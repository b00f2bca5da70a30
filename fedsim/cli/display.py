"""What a run looks like on a terminal: the plan, a live bar, the closing table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from fedsim.config import PrivacyConfig, delta_of
from fedsim.jobs import Job
from fedsim.privacy.ledger import Ledger
from fedsim.progress import Progress as RunProgress

if TYPE_CHECKING:
    from fedsim.privacy.accountants import Accountant


class LiveDisplay:
    """A listener that shows a run on a terminal. Use it as a context manager.

    Args:
        console: where to print.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=16),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            refresh_per_second=4,
        )
        self._accountants: dict[str, Accountant] = {}
        self._tasks: dict[Path, TaskID] = {}
        self._rounds: dict[Path, int] = {}

    def __enter__(self) -> LiveDisplay:
        """Start showing."""
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop showing."""
        self._bars.stop()

    def planned(self, folder: Path, jobs: Sequence[Job], plan: str) -> None:
        """Print the plan."""
        self._console.print(f"plan    {plan}", markup=False, highlight=False)
        self._console.print(f"folder  {folder}", markup=False, highlight=False)

    def progress(self, job: Job, progress: RunProgress) -> None:
        """Move a job's bar."""
        key = job.simulation.folder
        if progress.round < 0 or self._rounds.get(key) == progress.round:
            return
        self._rounds[key] = progress.round
        if key not in self._tasks:
            description = f"{job.label}, seed {job.simulation.spec.seed}"
            self._tasks[key] = self._bars.add_task(description, total=progress.rounds, note="")
        note = f"best {progress.best:.3f}, mean {progress.mean_best:.3f}"
        if progress.spent.releases:
            privacy = job.config.privacy
            delta = delta_of(job.config, progress.agents)
            note += f", ε {self._epsilon(progress.spent, delta, privacy):.2f}"
            note += f" of {privacy.budget:g}" if privacy.budget else ""
        note += f", {progress.agents} agents"  # all alive: a dead host is repaired
        self._bars.update(self._tasks[key], completed=progress.round, note=note)

    def _epsilon(self, spent: Ledger, delta: float, privacy: PrivacyConfig) -> float:
        # Imported here: scipy's optimisers take long to load, and --help needs none.
        from fedsim.privacy.accountants import make_accountant, privacy_loss

        name = privacy.accountant
        if name not in self._accountants:
            self._accountants[name] = make_accountant(name)
        return privacy_loss(spent, delta, self._accountants[name], privacy.accounting).epsilon

    def finished(self, job: Job) -> None:
        """Fill a job's bar."""
        key = job.simulation.folder
        if key in self._tasks:
            self._bars.update(self._tasks[key], completed=job.config.rounds)


def closing_table(summaries: Sequence[dict[str, Any]]) -> Table:
    """Return the table of outcomes: one row per variant, means and standard errors over seeds."""
    private = any(s.get("epsilon") for s in summaries)
    metrics = sorted({s["metric"] for s in summaries if "metric" in s})
    table = Table(
        title=f"{' / '.join(metrics) or 'value'} after the last round",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("variant", overflow="fold")
    table.add_column("seeds")
    for name in ("mean of agents", "best agent", *(("ε", "at 1e-5") if private else ()), "CPU s"):
        table.add_column(name, justify="right", no_wrap=True)
    for variant in dict.fromkeys(s["variant"] for s in summaries):
        table.add_row(*_row([s for s in summaries if s["variant"] == variant], private))
    return table


def _row(seeds: Sequence[dict[str, Any]], private: bool) -> list[str]:
    done = [s for s in seeds if s["status"] == "done"]
    count = str(len(seeds)) if len(done) == len(seeds) else f"{len(done)} of {len(seeds)} done"
    row = [escape(seeds[0]["variant"]), count, _mean_and_error([s["mean"] for s in done])]
    row.append(_mean_and_error([s["best"] for s in done]))
    if private:
        epsilon = done[0].get("epsilon", {}) if done else {}
        row += [_number(epsilon.get("pld")), _number(epsilon.get("delta_1e-5", {}).get("pld"))]
    row.append(f"{sum(s['objective_seconds'] + s['other_seconds'] for s in done):.1f}")
    return row


def _mean_and_error(values: Sequence[float]) -> str:
    if not values:
        return ""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{mean(values):.4f} ± {stdev(values) / math.sqrt(len(values)):.4f}"


def privacy_sentence(epsilon: dict[str, Any]) -> str:
    """Say what a run's ε means, in one sentence."""
    return (
        f"privacy: ε = {epsilon['pld']:.2f} at δ = {epsilon['delta']:.2g} (accountant pld; the "
        f"paper's moments accountant says {epsilon['moments']:.2f}) for {epsilon['releases']} "
        f"releases; neighbours: {epsilon['neighbouring_relation']} of one agent; sampling: "
        f"{epsilon['sampling']}."
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
