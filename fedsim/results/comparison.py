"""Comparing the variants of a run, paired on seeds.

Variants with the same seed share functions, initial designs and noise, so their differences are
far less noisy than the scores themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import t as student_t

from fedsim.errors import ConfigError
from fedsim.files import NOISE_CONTROL
from fedsim.results.analysis import Run
from fedsim.results.digits import with_error
from fedsim.space import Array


@dataclass(frozen=True)
class Difference:
    """How much better one variant is than another.

    Attributes:
        variant: the variant.
        baseline: the variant that it is compared with.
        gain: mean over seeds of the paired difference, larger is better for ``variant``.
        standard_error: of the gain, over seeds; NaN for one seed.
        p_value: of Student's paired test, two-sided; NaN for one seed or equal variants.
        seeds: the number of pairs.
    """

    variant: str
    baseline: str
    gain: float
    standard_error: float
    p_value: float
    seeds: int

    @property
    def significant(self) -> bool:
        """Whether the variant is better by more than two standard errors."""
        return self.gain > 2 * self.standard_error

    def sentence(self) -> str:
        """Return the comparison as a sentence."""
        if self.seeds < 2:
            return (
                f"{self.variant} against {self.baseline}: "
                f"{with_error(self.gain, None, '+')}, one seed: no error bar; use several seeds"
            )
        beats = "beats" if self.significant else "does NOT beat"
        return (
            f"{self.variant} {beats} {self.baseline}: "
            f"{with_error(self.gain, self.standard_error, '+')} ({self.seeds} paired seeds)"
        )


def scores(run: Run, first: int, last: int) -> pd.DataFrame:
    """Return each variant's mean score over rounds ``first`` to ``last``: one row per seed.

    The score is the simple regret if the scenario knows it, else the best observed value so far.

    Raises:
        ConfigError: if the run has no such rounds.
    """
    rounds = run.rounds
    chosen = rounds[rounds["round"].between(first, last)]
    if chosen.empty:
        raise ConfigError(
            f"rounds: expected some of 0 to {rounds['round'].max()}, got {first} to {last}"
        )
    column = "mean_simple_regret" if "mean_simple_regret" in rounds else "mean_best_observed"
    means = chosen.groupby(["seed", "variant"], sort=False)[column].mean().unstack()
    return means[list(dict.fromkeys(rounds["variant"]))]


def difference(run: Run, table: pd.DataFrame, variant: str, baseline: str) -> Difference:
    """Compare two columns of :func:`scores` on their common seeds."""
    summary = run.runs[0].summary()
    lower_is_better = summary["metric"] == "simple_regret" or summary["direction"] == "minimize"
    gains = (table[variant] - table[baseline]).dropna().to_numpy(dtype=float)
    if lower_is_better:
        gains = -gains
    gain, error = float(np.mean(gains)) if len(gains) else math.nan, standard_error(gains)
    p_value = 2.0 * float(student_t.sf(abs(gain) / error, len(gains) - 1)) if error else math.nan
    return Difference(variant, baseline, gain, error, p_value, len(gains))


def standard_error(values: Array) -> float:
    """Return the standard error of the mean of independent values, shape (n,); NaN for one."""
    if len(values) < 2:
        return math.nan
    return float(np.std(values, ddof=1)) / math.sqrt(len(values))


def control_differences(run: Run) -> list[Difference]:
    """Compare every private variant with its noise-only control, if there is one, over all rounds.

    Messages that do not beat noise are useless.
    """
    labels = dict.fromkeys(one.variant for one in run.runs)
    private = [label for label in labels if label + NOISE_CONTROL in labels]
    if not private:
        return []
    table = scores(run, 1, int(run.rounds["round"].max()))
    return [difference(run, table, label, label + NOISE_CONTROL) for label in private]
