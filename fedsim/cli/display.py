"""What a run looks like on a terminal: the plan, a live bar, the closing table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from fedsim.config import delta_of
from fedsim.privacy.accountants import make_accountant, privacy_loss
from fedsim.runner import Job
from fedsim.simulation import Progress as RunProgress


class LiveDisplay:
    """A listener that shows a run on a terminal. Use it as a context manager.

    Args:
        console: where to print.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._accountant = make_accountant("pld")
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("round {task.completed}/{task.total}"),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            refresh_per_second=4,
        )
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
        note = f"best {progress.best:.4g}, mean {progress.mean_best:.4g}"
        if progress.spent.releases:
            delta = delta_of(job.config, progress.agents)
            note += f", ε {privacy_loss(progress.spent, delta, self._accountant).epsilon:.2f}"
        note += f", {progress.agents} agents"
        self._bars.update(self._tasks[key], completed=progress.round, note=note)

    def finished(self, job: Job) -> None:
        """Fill a job's bar."""
        key = job.simulation.folder
        if key in self._tasks:
            self._bars.update(self._tasks[key], completed=job.config.rounds)


def closing_table(summaries: Sequence[dict[str, Any]]) -> Table:
    """Return the table of outcomes, one row per variant and seed."""
    metrics = {s.get("metric", "value") for s in summaries}
    metric = metrics.pop() if len(metrics) == 1 else "value"
    private = any(s.get("epsilon") for s in summaries)
    table = Table(title=f"after the last round: {metric}")
    for name in ("variant", "seed", "status"):
        table.add_column(name)
    for name in ("best agent", "mean of agents", *(("ε (pld)", "ε at δ=1e-5") if private else ())):
        table.add_column(name, justify="right")
    table.add_column("objective / other, CPU s", justify="right")
    for s in summaries:
        row = [s["variant"], str(s["seed"]), s["status"]]
        row += [_number(s.get("best")), _number(s.get("mean"))]
        if private:
            epsilon = s.get("epsilon", {})
            row += [
                _number(epsilon.get("pld"), 2),
                _number(epsilon.get("delta_1e-5", {}).get("pld"), 2),
            ]
        row.append(f"{s.get('objective_seconds', 0):.1f} / {s.get('other_seconds', 0):.1f}")
        table.add_row(*row)
    return table


def privacy_sentence(epsilon: dict[str, Any]) -> str:
    """Say what a run's ε means, in one sentence."""
    return (
        f"privacy: ε = {epsilon['pld']:.2f} at δ = {epsilon['delta']:.2g} (accountant pld; the "
        f"paper's moments accountant says {epsilon['moments']:.2f}) for {epsilon['releases']} "
        f"releases; neighbours: {epsilon['neighbouring_relation']} of one agent; sampling: "
        f"{epsilon['sampling']}."
    )


def _number(value: Any, digits: int = 4) -> str:
    return "" if value is None else f"{value:.{digits}f}"
