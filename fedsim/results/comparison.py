"""Comparing variants, of one run or several, paired on seeds where that is allowed.

Variants of one scenario with the same seed share functions, initial designs and noise, so their
differences are far less noisy than the scores themselves. All scores are means over the same
rounds: those that every variant has. A verdict follows Student's test with Holm's correction for
the number of comparisons (S. Holm, Scandinavian Journal of Statistics 6, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from fedsim.arguments import ROUNDS, TEXT, TEXTS, check_arguments
from fedsim.errors import ConfigError, nearest, of_option
from fedsim.files import NOISE_CONTROL
from fedsim.means import mean, standard_error
from fedsim.results.analysis import AnyRun, Run, opened
from fedsim.results.differences import Comparison, Difference, Row
from fedsim.results.entrants import REGRET, VALUE, Entrant, entrants
from fedsim.results.metrics import TIMES, chosen_metric, lost_times, seed_scores, sign_of
from fedsim.results.naming import variants_of
from fedsim.results.significance import holm, student_p, welch


def compare(
    *runs: AnyRun | Sequence[AnyRun],
    rounds: tuple[int, int] | None = None,
    baseline: str | None = None,
    labels: Sequence[str] | None = None,
    metric: str | None = None,
    best_agent: bool = False,
) -> Comparison:
    """Compare the variants of one run, or of several.

    Args:
        runs: runs, their folders, or lists of them; they may be unfinished.
        rounds: the first and last round to average over; by default 1 to the last that all
            variants have.
        baseline: what to compare with; by default the first variant.
        labels: what the runs are called, one for each.
        metric: a metric of :func:`fedsim.plot`, or a time of a whole run: ``seconds``,
            ``cpu_seconds``, or without evaluations, ``method_cpu_seconds``; by default the simple
            regret where both variants of a pair know it, else the best observed value.
        best_agent: the best agent's value instead of the mean over agents.

    Raises:
        ConfigError: if there is no run, the baseline is unknown, no variant has the metric, some
            variant does not have the rounds, or no variant can be compared with the baseline.
        RunFolderError: if a run has nothing to show.
    """
    check_arguments(
        rounds=(rounds, ROUNDS),
        baseline=(baseline, TEXT),
        labels=(labels, TEXTS),
        metric=(metric, TEXT),
    )
    found, missing = entrants(opened(*runs), labels)
    return compare_variants(
        found, missing, rounds=rounds, baseline=baseline, metric=metric, best_agent=best_agent
    )


def compare_variants(
    found: Sequence[Entrant],
    missing: Sequence[str],
    *,
    rounds: tuple[int, int] | None = None,
    baseline: str | None = None,
    metric: str | None = None,
    best_agent: bool = False,
) -> Comparison:
    """Compare variants that are open already; the rest as in :func:`compare`.

    Args:
        found: the variants.
        missing: a sentence for each seed that is incomplete.
        rounds: see there.
        baseline: see there.
        metric: see there.
        best_agent: see there.
    """
    names = [one.label for one in found]
    against = names[0] if baseline is None else baseline
    if against not in names:
        raise of_option(
            "--baseline",
            ConfigError(f"baseline: unknown variant {against!r}{nearest(against, names)}"),
        )
    column = _asked(metric, found, rounds, best_agent=best_agent)
    first, last = _bounds(found, rounds)
    columns = (REGRET, VALUE) if column is None else (column,)
    scores = {one.label: seed_scores(one, columns, first, last) for one in found}
    if column is not None and not any(own[column].notna().any() for own in scores.values()):
        raise of_option("--metric", ConfigError(f"metric: no variant has {column}"))
    base = found[names.index(against)]
    others = [one for one in found if one is not base]
    refused = [one for one in others if one.direction != base.direction]
    if refused and len(refused) == len(others):
        raise ConfigError(
            f"compare: {base.label} is to {base.direction} and {refused[0].label} to "
            f"{refused[0].direction}: their scores cannot be compared"
        )
    differences = [_difference(one, base, scores, column) for one in others if one not in refused]
    by_label = {one.variant: one for one in corrected(differences)}
    rows = [_row(one, scores[one.label], by_label.get(one.label), column) for one in found]
    unequal = _unequal(found)
    notes = [
        *unequal,
        *missing,
        *filter(None, (one.left_out(last) for one in found)),
        *_without_values(found),
        *_of_other_agents(found, base),
        *(lost_times(found) if column in TIMES else []),
        *_unpaired(by_label, found),
    ]
    notes += [
        f"{one.label} is to {one.direction} and {base.label} to {base.direction}: not compared"
        for one in refused
    ]
    return Comparison(against, (first, last), tuple(rows), tuple(notes), bool(unequal))


def control_differences(run: Run) -> list[Difference]:
    """Compare every private variant with its noise-only control, if there is one, over all rounds.

    Messages that do not beat noise are useless.
    """
    if not any(label.endswith(NOISE_CONTROL) for label in variants_of(run)):
        return []
    found = {one.label: one for one in entrants([run], None)[0]}
    differences = []
    for label in found:
        if label + NOISE_CONTROL not in found:
            continue
        pair = [found[label], found[label + NOISE_CONTROL]]
        first, last = _bounds(pair, None)
        scores = {one.label: seed_scores(one, (REGRET, VALUE), first, last) for one in pair}
        differences.append(_difference(pair[0], pair[1], scores))
    return corrected(differences)


def _bounds(found: Sequence[Entrant], rounds: tuple[int, int] | None) -> tuple[int, int]:
    """Return the first and last round: of those given, or of all, that every variant has."""
    last = min(one.last for one in found)
    if rounds is None:
        return min(1, last), last
    planned = max(one.planned for one in found)
    if rounds[1] > planned:
        raise of_option(
            "--rounds",
            ConfigError(f"rounds: expected some of 0 to {planned}, got {rounds[0]} to {rounds[1]}"),
        )
    if not 0 <= rounds[0] <= min(rounds[1], last):
        all_have = ", the rounds that all variants have" if len(found) > 1 else ""
        raise of_option(
            "--rounds",
            ConfigError(
                f"rounds: expected some of 0 to {last}{all_have}, got {rounds[0]} to {rounds[1]}"
            ),
        )
    return rounds[0], min(rounds[1], last)


def _asked(
    metric: str | None,
    found: Sequence[Entrant],
    rounds: tuple[int, int] | None,
    *,
    best_agent: bool,
) -> str | None:
    """Return the column that was asked for; None for the one that both variants of a pair have."""
    if metric is None and not best_agent:
        return None
    chosen = chosen_metric(metric, found, best_agent=best_agent, times=True)
    chosen.check_rounds(rounds)
    return chosen.column


def _difference(
    one: Entrant, base: Entrant, scores: Mapping[str, pd.DataFrame], column: str | None = None
) -> Difference:
    """Compare two variants on a column, or on the metric that both have, not yet corrected."""
    metric = column or (one.metric if one.metric == base.metric else VALUE)
    sign = sign_of(metric, one.direction)
    own, other = (sign * scores[each.label][metric].dropna() for each in (one, base))
    paired = one.scenario == base.scenario and one.scenario is not None
    if paired:
        gains = (own - other).dropna().to_numpy(dtype=float)
        gain, seeds = mean(gains), len(gains)
        error, freedom = standard_error(gains), seeds - 1.0
    else:
        first, second = own.to_numpy(dtype=float), other.to_numpy(dtype=float)
        gain, seeds = mean(first) - mean(second), len(first)
        error, freedom = welch(first, second)
    p_value = student_p(gain, error, freedom)
    return Difference(one.label, base.label, metric, gain, error, p_value, p_value, seeds, paired)


def corrected(differences: Sequence[Difference]) -> list[Difference]:
    """Return differences with p values corrected for their number."""
    p_values = holm([one.p_value for one in differences])
    tested = sum(not math.isnan(p) for p in p_values)
    return [
        replace(one, p_corrected=p, comparisons=tested)
        for one, p in zip(differences, p_values, strict=True)
    ]


def _row(one: Entrant, scores: pd.DataFrame, found: Difference | None, column: str | None) -> Row:
    metric = column or (one.metric if found is None else found.metric)
    values = scores[metric].dropna().to_numpy(dtype=float)
    return Row(
        one.label, metric, one.direction, mean(values), standard_error(values), len(values), found
    )


def _unequal(found: Sequence[Entrant]) -> list[str]:
    common = min(one.last for one in found)
    longer = [f"{one.label} has {one.last}" for one in found if one.last > common]
    return (
        [f"only rounds that all variants have are compared; {', '.join(longer)}"] if longer else []
    )


def _without_values(found: Sequence[Entrant]) -> list[str]:
    """Return a sentence for each variant in which no evaluation succeeded."""
    return [
        f"{one.label}: no evaluation succeeded, so there are no scores; `fedsim show` names the "
        "first error"
        for one in found
        if not one.rounds[VALUE].notna().any()
    ]


def _of_other_agents(found: Sequence[Entrant], base: Entrant) -> list[str]:
    """Return a sentence for each variant whose scores are of other agents than the baseline's."""
    return [
        f"scores of {one.label} are of {one.whose}, those of {base.label} of {base.whose}"
        for one in found
        if one.scenario == base.scenario and one.targets != base.targets
    ]


def _unpaired(differences: Mapping[str, Difference], found: Sequence[Entrant]) -> list[str]:
    lost = {one.label for one in found if one.scenario is None}
    return [
        f"{one.variant} and {one.baseline} have {_apart(one, lost)}: not paired on seeds (Welch's "
        "test)"
        for one in differences.values()
        if not one.paired
    ]


def _apart(one: Difference, lost: set[str]) -> str:
    known = not {one.variant, one.baseline} & lost
    return "different scenarios" if known else "a scenario that is not known"
