"""Which scores of a run are shown, and their means over seeds as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsim.errors import listed
from fedsim.means import mean, standard_error
from fedsim.results.digits import with_error

MOST_TARGETS = 6
"""More are counted, not named."""

JUDGED_BY_REGRET = ("mean_simple_regret", "mean_inference_regret", "best_observed")
JUDGED_BY_VALUE = ("mean_best_observed", "best_observed", "mean_best_noiseless")


def shown_scores(summaries: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names of the scores to show: those that some seed has."""
    regret = any(s.get("metric") == "simple_regret" for s in summaries)
    value = any(s.get("metric") == "best_observed" for s in summaries)
    shown = (*(JUDGED_BY_REGRET if regret else ()), *(JUDGED_BY_VALUE if value else ()))
    return [name for name in dict.fromkeys(shown) if known(summaries, name)] or ["best_observed"]


def target_words(targets: Sequence[int]) -> str:
    """Return some targets in words; of many, their number."""
    if len(targets) == 1:
        return f"target agent {targets[0]}"
    if len(targets) > MOST_TARGETS:
        return f"{len(targets)} target agents"
    return f"target agents {listed(map(str, targets))}"


def known(summaries: Sequence[dict[str, Any]], name: str) -> list[float]:
    """Return the values of a score that seeds have."""
    return [s[name] for s in summaries if s.get(name) is not None]


def mean_and_error(values: Sequence[float]) -> str:
    """Return the mean over seeds and its standard error as text; empty without values."""
    if not values:
        return ""
    array = np.array(values, dtype=float)
    text = with_error(mean(array), standard_error(array))
    return text.replace("± ", "±")  # lines of a table break at spaces
