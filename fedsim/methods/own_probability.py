"""p_t: how often an agent of a federated method queries from its own model.

Papers: FTS (NeurIPS 2020) and DP-FTS-DE (NeurIPS 2021) allow any increasing sequence in (0, 1]
that tends to 1; they use 1 - 1/t, 1 - 1/sqrt(t) and 1 - 1/t^2, FTS with p_1 = p_2: that is
max(t, 2) in place of t. A user's class may compute another.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from fedsim.errors import ConfigError, RunError
from fedsim.rng import Keys
from fedsim.usercode.calling import user_code
from fedsim.usercode.loading import load_class

Schedule = Callable[[int], float]
"""p_t in [0, 1] of an agent's t-th query, t = 1, 2, ...; the same for the same t."""

ScheduleSetting = str | float | Mapping[str, Any]
"""p_t as it is configured, see :func:`own_probability_schedule`."""

_EXPECTED = (
    "expected '1 - 1/t', '1 - 1/sqrt(t)', '1 - 1/t^2' or any other exponent, max(t, 2) in place of "
    "t, a constant in [0, 1], or a class of yours as module:Class"
)


@dataclass(frozen=True, slots=True)
class OwnProbability:
    """p_t: the probability that query t = 1, 2, ... comes from the agent's own model.

    Attributes:
        exponent: of p_t = 1 - t^-exponent; None for a constant p_t.
        constant: p_t if there is no exponent.
        first: smaller t have this one's p_t.
    """

    exponent: float | None
    constant: float = 0.0
    first: int = 1

    def __call__(self, t: int) -> float:
        """Return p_t, in [0, 1]."""
        if self.exponent is None:
            return self.constant
        return 1.0 - math.pow(max(t, self.first), -self.exponent)


@dataclass(frozen=True, slots=True)
class UsersProbability:
    """p_t of a user's class.

    Attributes:
        name: the class.
        schedule: an instance.
        where: the setting's name in errors.
    """

    name: str
    schedule: Schedule
    where: str

    def __call__(self, t: int) -> float:
        """Return p_t.

        Raises:
            UserCodeError: if the class raises.
            RunError: if it returns anything but a number in [0, 1].
        """
        with user_code(f"{self.where}: {self.name} failed for t = {t}"):
            p: object = self.schedule(t)
        if not isinstance(p, Real) or not 0 <= float(p) <= 1:
            raise RunError(
                f"{self.where}: {self.name}: expected a probability in [0, 1] for "
                f"t = {t}, got {p!r}"
            )
        return float(p)


def queries_own(schedule: Schedule, t: int, keys: Keys, purpose: str) -> bool:
    """Return whether an agent's t-th query, t = 1, 2, ..., comes from its own model.

    Args:
        schedule: p_t.
        t: which query.
        keys: for the draw.
        purpose: of the draw.
    """
    r = 1.0 - keys(purpose).random()  # in (0, 1], so that p_1 = 0 means never
    return bool(r <= schedule(t))


_TIME = r"(?:t|max\(t,(?P<first>[1-9]\d*)\))"
_ROOT = re.compile(rf"1-1/sqrt\({_TIME}\)")
_POWER = re.compile(rf"1-1/{_TIME}(?:\^|\*\*)?(?P<exponent>\d+\.?\d*|\.\d+|)")


def own_probability_schedule(
    given: ScheduleSetting, where: str = "method.own_probability"
) -> Schedule:
    """Return p_t as configured: a constant, ``1 - 1/t^e``, or a user's class.

    Args:
        given: the setting; for a class with settings, a mapping with its ``name`` and them.
        where: the setting's name in errors.

    Raises:
        ConfigError: if it is none of these.
        UserCodeError: if the class cannot be built.
    """
    if isinstance(given, Mapping):
        settings = dict(given)
        name = settings.pop("name", None)
        if not isinstance(name, str) or ":" not in name:
            expected = "expected a class of yours, module:Class"
            raise ConfigError(f"{where}.name: {expected}, got {name!r}")
        return _users(name, settings, where)
    if isinstance(given, str):
        compact = given.replace(" ", "")
        if ":" in compact:
            return _users(compact, {}, where)
        if match := _ROOT.fullmatch(compact):
            return OwnProbability(0.5, first=int(match["first"] or 1))
        match = _POWER.fullmatch(compact)
        if match and 0 < (exponent := float(match["exponent"] or 1.0)) < math.inf:
            return OwnProbability(exponent, first=int(match["first"] or 1))
        try:
            given = float(compact)
        except ValueError:
            raise ConfigError(f"{where}: {_EXPECTED}, got {given!r}") from None
    if not 0 <= given <= 1:
        raise ConfigError(f"{where}: {_EXPECTED}, got {given!r}")
    return OwnProbability(None, float(given))


def _users(name: str, settings: dict[str, Any], where: str) -> UsersProbability:
    try:
        target = load_class(name)
        inspect.signature(target).bind(**settings)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    except TypeError as error:
        raise ConfigError(f"{where}: {name}: its settings: {error}") from None
    with user_code(f"{where}: {name} cannot be built"):
        schedule = target(**settings)
    if not callable(schedule):
        raise ConfigError(f"{where}: {name}: expected a class with __call__(t), got one without")
    found = UsersProbability(name, schedule, where)
    found(1)  # a mistake shows before the run starts
    return found
