"""Comparing methods over problems, as benchmark tables do.

The variants of some runs are arranged by problem and method (:mod:`fedsim.results.design`),
compared (:mod:`fedsim.results.problemscores`) and, if asked for, put beside a published table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedsim.arguments import ROUNDS, TEXT, TEXT_OR_TEXTS, TEXTS, check_arguments
from fedsim.errors import ConfigError, RunFolderError
from fedsim.results.analysis import AnyRun, opened
from fedsim.results.design import Design, arranged
from fedsim.results.entrants import Entrant, entrants
from fedsim.results.metrics import TIMES, chosen_metric, lost_times
from fedsim.results.problemscores import compared
from fedsim.results.problemtable import ProblemComparison
from fedsim.results.published import put_beside, read_published


def compare_problems(
    *runs: AnyRun | Sequence[AnyRun],
    problem: str | Sequence[str] = (),
    method: str | Sequence[str] = (),
    metric: str | None = None,
    best_agent: bool = False,
    rounds: tuple[int, int] | None = None,
    baseline: str | None = None,
    labels: Sequence[str] | None = None,
    published: str | Path | None = None,
) -> ProblemComparison:
    """Compare methods over problems: the variants of one run, or of several.

    Args:
        runs: runs, or their folders; they may be unfinished.
        problem: the configuration keys that tell problems apart, or groups of keys such as
            ``scenario``; by default all of the scenario's that change.
        method: the keys that tell methods apart; by default those that change within a problem.
        metric: a metric of :func:`fedsim.plot`, or a time of a whole run: ``seconds``,
            ``cpu_seconds``, or without evaluations, ``method_cpu_seconds``; by default the simple
            regret if all know it, else the best observed value.
        best_agent: the best agent's value instead of the mean over agents.
        rounds: the first and last round to average over; by default the last round that all
            methods have on a problem.
        baseline: the method to compare with; by default the first.
        labels: what the runs are called, one for each: methods of different runs then differ.
        published: a published table to show beside ours: the name of one that ships with fedsim,
            or a YAML file, see :mod:`fedsim.results.published`. It also says what ``problem``,
            ``method`` and ``metric`` are by default.

    Raises:
        ConfigError: if an argument is wrong, no two methods have two problems in common (beside a
            published table, one will do), or some method does not have the rounds.
        RunFolderError: if a run has nothing to show.
    """
    check_arguments(
        problem=(problem, TEXT_OR_TEXTS),
        method=(method, TEXT_OR_TEXTS),
        metric=(metric, TEXT),
        rounds=(rounds, ROUNDS),
        baseline=(baseline, TEXT),
        labels=(labels, TEXTS),
    )
    found, missing = entrants(opened(*runs), labels)
    return compare_methods(
        found,
        missing,
        problem=[problem] if isinstance(problem, str) else problem or (),
        method=[method] if isinstance(method, str) else method or (),
        metric=metric,
        best_agent=best_agent,
        rounds=rounds,
        baseline=baseline,
        named=labels is not None,
        published=published,
    )


def compare_methods(
    found: Sequence[Entrant],
    missing: Sequence[str],
    *,
    problem: Sequence[str] = (),
    method: Sequence[str] = (),
    metric: str | None = None,
    best_agent: bool = False,
    rounds: tuple[int, int] | None = None,
    baseline: str | None = None,
    named: bool = False,
    published: str | Path | None = None,
) -> ProblemComparison:
    """Compare variants that are open already; the rest as in :func:`compare_problems`.

    Args:
        found: the variants.
        missing: a sentence for each seed that is incomplete.
        problem: see there.
        method: see there.
        metric: see there.
        best_agent: see there.
        rounds: see there.
        baseline: see there.
        named: whether the user named the runs.
        published: see there.
    """
    table = None if published is None else read_published(published)
    if table is not None:
        problem, method = problem or table.problem, method or table.method
        if metric is None:
            metric, best_agent = table.metric, best_agent or table.best_agent
    chosen = chosen_metric(metric, found, best_agent=best_agent, times=True)
    design = arranged(found, problem=problem, method=method, named=named)
    if table is None and not design.comparable:
        told = f"problems: {', '.join(design.problems)}; methods: {', '.join(design.methods)}"
        raise ConfigError(f"compare: expected two methods with two problems in common, got {told}")
    beside = None if table is None else put_beside(table, design.problems, design.methods)
    lost = lost_times(found) if chosen.column in TIMES else []
    return replace(compared(design, chosen, rounds, baseline, [*missing, *lost]), beside=beside)


def over_problems(found: Sequence[Entrant], *, named: bool) -> Design | None:
    """Return variants as a table of problems and methods if they form one by themselves."""
    try:
        design = arranged(found, named=named)
    except (ConfigError, RunFolderError):
        return None
    return design if design.comparable else None
