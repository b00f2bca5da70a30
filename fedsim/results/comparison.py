"""Comparing variants, of one run or several, paired on seeds where that is allowed.

Variants of one scenario with the same seed share functions, initial designs and noise, so their
differences are far less noisy than the scores themselves. All scores are means over the same
rounds: those that every variant has. A verdict follows Student's test with Holm's correction for
the number of comparisons (S. Holm, Scandinavian Journal of Statistics 6, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from fedsim.errors import ConfigError, nearest, of_option
from fedsim.files import NOISE_CONTROL
from fedsim.means import mean, standard_error
from fedsim.results.analysis import AnyRun, Run, opened
from fedsim.results.digits import significant, with_error
from fedsim.results.entrants import REGRET, VALUE, Entrant, entrants
from fedsim.results.naming import variants_of
from fedsim.results.significance import holm, student_p, welch

LEVEL = 0.05
"""The probability of a false verdict, over all comparisons of a table."""


@dataclass(frozen=True)
class Difference:
    """How much better one variant is than another.

    Attributes:
        variant: the variant.
        baseline: the variant that it is compared with.
        metric: what is compared, such as ``mean_simple_regret``.
        gain: mean over seeds of the difference; larger is better for ``variant``.
        standard_error: of the gain, over seeds; NaN for one seed.
        p_value: of Student's test, two-sided: paired, or Welch's if not; NaN for one seed.
        p_corrected: the same, corrected for all comparisons of its table; NaN for one seed.
        seeds: the number of pairs; of the variant's seeds, if they are not paired.
        paired: whether the seeds are paired: both have the same scenario.
        comparisons: how many comparisons the correction is for.
    """

    variant: str
    baseline: str
    metric: str
    gain: float
    standard_error: float
    p_value: float
    p_corrected: float
    seeds: int
    paired: bool = True
    comparisons: int = 1

    @property
    def verdict(self) -> str:
        """``beats``, ``does not beat``, or empty if the difference has no error bar."""
        if math.isnan(self.p_corrected):
            return ""
        return "beats" if self.gain > 0 and self.p_corrected < LEVEL else "does not beat"

    def sentence(self) -> str:
        """Return the comparison as a sentence."""
        gain = with_error(self.gain, self.standard_error, "+")
        if not self.verdict:
            return (
                f"{self.variant} against {self.baseline}: {gain}, one seed: no error bar; use "
                "several seeds"
            )
        seeds = f"{self.seeds} {'paired ' if self.paired else ''}seeds"
        p = f"p = {significant(self.p_corrected, 2)}"
        p += f", corrected for {self.comparisons} comparisons" if self.comparisons > 1 else ""
        return f"{self.variant} {self.verdict} {self.baseline}: {gain} ({seeds}, {p})"


@dataclass(frozen=True)
class Row:
    """One variant of a comparison.

    Attributes:
        variant: what it is called.
        metric: what its score is, such as ``mean_simple_regret``.
        direction: ``maximize`` or ``minimize``, of its scenario.
        score: mean over its seeds of the metric's mean over the rounds; NaN without seeds.
        score_error: its standard error over seeds; NaN for one seed.
        seeds: how many seeds have all of the rounds.
        difference: from the baseline; None for the baseline itself.
    """

    variant: str
    metric: str
    direction: str
    score: float
    score_error: float
    seeds: int
    difference: Difference | None


@dataclass(frozen=True)
class Comparison:
    """Variants compared with a baseline.

    Attributes:
        baseline: what the others are compared with.
        rounds: the first and last round of the scores' means.
        rows: the variants, in order.
        notes: what a reader must know: unequal rounds, seeds that are not paired or left out.
        unequal: whether some variants have more rounds than others.
    """

    baseline: str
    rounds: tuple[int, int]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    unequal: bool = False

    @property
    def title(self) -> str:
        """What the scores are."""
        metrics = dict.fromkeys(row.metric.replace("_", " ") for row in self.rows)
        which = " (all variants have these)" if self.unequal else ""
        first, last = self.rounds
        return f"{' / '.join(metrics)}, mean of rounds {first} to {last}{which}"

    def frame(self) -> pd.DataFrame:
        """Return the rows as a data frame; the baseline's own difference is NaN."""
        return pd.DataFrame(
            {
                "variant": row.variant,
                "seeds": row.seeds,
                row.metric: row.score,
                "standard_error": row.score_error,
                "gain": row.difference.gain if row.difference else math.nan,
                "gain_error": row.difference.standard_error if row.difference else math.nan,
                "p_value": row.difference.p_value if row.difference else math.nan,
                "p_corrected": row.difference.p_corrected if row.difference else math.nan,
                "verdict": row.difference.verdict if row.difference else "",
            }
            for row in self.rows
        )

    def __repr__(self) -> str:
        return f"{self.title}\n{self.frame().to_string(index=False)}"

    def _repr_html_(self) -> str:
        return f"<p>{self.title}</p>{self.frame().to_html(index=False)}"


def compare(
    *runs: AnyRun | Sequence[AnyRun],
    rounds: tuple[int, int] | None = None,
    baseline: str | None = None,
    labels: Sequence[str] | None = None,
) -> Comparison:
    """Compare the variants of one run, or of several.

    Args:
        runs: runs, their folders, or lists of them; they may be unfinished.
        rounds: the first and last round to average over; by default 1 to the last that all
            variants have.
        baseline: what to compare with; by default the first variant.
        labels: what the runs are called, one for each.

    Raises:
        ConfigError: if there is no run, the baseline is unknown, some variant does not have the
            rounds, or no variant can be compared with the baseline.
        RunFolderError: if a run has nothing to show.
    """
    found, missing = entrants(opened(*runs), labels)
    names = [one.label for one in found]
    against = names[0] if baseline is None else baseline
    if against not in names:
        raise of_option(
            "--baseline",
            ConfigError(f"baseline: unknown variant {against!r}{nearest(against, names)}"),
        )
    first, last = _bounds(found, rounds)
    scores = {one.label: one.scores(first, last) for one in found}
    base = found[names.index(against)]
    others = [one for one in found if one is not base]
    refused = [one for one in others if one.direction != base.direction]
    if refused and len(refused) == len(others):
        raise ConfigError(
            f"compare: {base.label} is to {base.direction} and {refused[0].label} to "
            f"{refused[0].direction}: their scores cannot be compared"
        )
    differences = [_difference(one, base, scores) for one in others if one not in refused]
    by_label = {one.variant: one for one in corrected(differences)}
    rows = [_row(one, base, scores[one.label], by_label.get(one.label)) for one in found]
    unequal = _unequal(found)
    notes = [
        *unequal,
        *missing,
        *filter(None, (one.left_out(last) for one in found)),
        *_unpaired(by_label),
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
        scores = {one.label: one.scores(first, last) for one in pair}
        differences.append(_difference(pair[0], pair[1], scores))
    return corrected(differences)


def _bounds(found: Sequence[Entrant], rounds: tuple[int, int] | None) -> tuple[int, int]:
    """Return the first and last round: of those given, or of all, that every variant has."""
    last = min(one.last for one in found)
    if rounds is None:
        return min(1, last), last
    if not 0 <= rounds[0] <= min(rounds[1], last):
        all_have = ", the rounds that all variants have" if len(found) > 1 else ""
        raise of_option(
            "--rounds",
            ConfigError(
                f"rounds: expected some of 0 to {last}{all_have}, got {rounds[0]} to {rounds[1]}"
            ),
        )
    return rounds[0], min(rounds[1], last)


def _difference(one: Entrant, base: Entrant, scores: Mapping[str, pd.DataFrame]) -> Difference:
    """Compare two variants on the metric that both have, not yet corrected."""
    metric = one.metric if one.metric == base.metric else VALUE
    sign = -1.0 if metric == REGRET or one.direction == "minimize" else 1.0
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


def _row(one: Entrant, base: Entrant, scores: pd.DataFrame, found: Difference | None) -> Row:
    metric = one.metric if found is None else found.metric
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


def _unpaired(differences: Mapping[str, Difference]) -> list[str]:
    return [
        f"{one.variant} and {one.baseline} have different scenarios: not paired on seeds (Welch's "
        "test)"
        for one in differences.values()
        if not one.paired
    ]
