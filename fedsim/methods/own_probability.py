"""p_t: how often an agent of a federated method queries from its own model.

Papers: FTS (NeurIPS 2020) and DP-FTS-DE (NeurIPS 2021) allow any increasing sequence in (0, 1]
that tends to 1; they use 1 - 1/t, 1 - 1/sqrt(t) and 1 - 1/t^2.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from fedsim.errors import ConfigError


@dataclass(frozen=True, slots=True)
class OwnProbability:
    """p_t: the probability that query t = 1, 2, ... comes from the agent's own model.

    Attributes:
        exponent: of p_t = 1 - t^-exponent; None for a constant p_t.
        constant: p_t if there is no exponent.
    """

    exponent: float | None
    constant: float = 0.0

    def __call__(self, t: int) -> float:
        """Return p_t, in [0, 1]."""
        return self.constant if self.exponent is None else 1.0 - float(t) ** -self.exponent


_POWER = re.compile(r"1-1/t(?:\^|\*\*)?(\d+\.?\d*|\.\d+|)")


def own_probability_schedule(text: str | float) -> OwnProbability:
    """Return p_t as configured: a constant, or ``1 - 1/t^e``.

    Raises:
        ConfigError: if it is neither.
    """
    expected = (
        "expected '1 - 1/t', '1 - 1/sqrt(t)', '1 - 1/t^2' or any other exponent, or a constant "
        f"in [0, 1], got {text!r}"
    )
    if isinstance(text, str):
        compact = text.replace(" ", "")
        if compact == "1-1/sqrt(t)":
            return OwnProbability(0.5)
        match = _POWER.fullmatch(compact)
        if match:
            exponent = float(match[1] or 1.0)
            if not 0 < exponent < math.inf:
                raise ConfigError(f"method.own_probability: {expected}")
            return OwnProbability(exponent)
        try:
            text = float(compact)
        except ValueError:
            raise ConfigError(f"method.own_probability: {expected}") from None
    if not 0 <= text <= 1:
        raise ConfigError(f"method.own_probability: {expected}")
    return OwnProbability(None, float(text))
