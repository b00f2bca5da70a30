"""One call of an agent's black box, checked."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from fedsim.errors import ObjectiveError
from fedsim.imports import user_traceback
from fedsim.protocol import Evaluation, Objective
from fedsim.rng import Keys
from fedsim.space import Value


def evaluate(
    objective: Objective,
    point: Mapping[str, Value],
    key: Keys,
    index: int,
    where: str,
    retries: int = 0,
    watched: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Evaluation:
    """Call an objective until it succeeds.

    Args:
        objective: the black box.
        point: values by name, in the user's units.
        key: of the agent and its step; every try has the same randomness.
        index: position among the step's proposals.
        where: agent, round and point, for errors.
        retries: how often to call it again after a failure.
        watched: makes the context that each try runs in: it may end it at its deadline.

    Raises:
        ObjectiveError: if at last it raises, or returns anything but a finite number or an
            ``Evaluation`` of finite numbers.
    """
    for left in reversed(range(retries + 1)):
        try:
            with watched():
                return call_once(objective, point, key("objective", index), where)
        except ObjectiveError as error:
            if left:
                continue
            if not retries:
                raise
            summary = f"{error.summary} (tried {retries + 1} times)"
            raise ObjectiveError(summary, error.user_traceback, error.reason) from None
    raise AssertionError("the last try returns or raises")


def call_once(
    objective: Objective, point: Mapping[str, Value], rng: np.random.Generator, where: str
) -> Evaluation:
    """Call an objective once; errors as in :func:`evaluate`."""
    try:
        value = objective(point, rng)
    except Exception as error:
        raise ObjectiveError(
            f"the objective raised {type(error).__name__} ({where}): {error}",
            user_traceback(error),
            f"raised {type(error).__name__}",
        ) from None
    except (SystemExit, GeneratorExit) as error:
        raise ObjectiveError(
            f"the objective raised {type(error).__name__} ({where}); it must return a number",
            user_traceback(error),
            f"raised {type(error).__name__}",
        ) from None
    found = value if isinstance(value, Evaluation) else Evaluation(value)
    noiseless = None if found.noiseless is None else _finite(found.noiseless, where)
    return Evaluation(_finite(found.y, where), noiseless)


def _finite(number: object, where: str) -> float:
    if isinstance(number, (bool, np.bool_)) or not isinstance(number, (int, float, np.number)):
        raise ObjectiveError(
            f"the objective returned {type(number).__name__} ({where}): expected a number "
            "or fedsim.protocol.Evaluation; return float(...)",
            reason=f"returned {type(number).__name__}",
        )
    if isinstance(number, int) and abs(number) > sys.float_info.max:
        number = math.inf
    if isinstance(number, np.complexfloating) or not math.isfinite(number):
        raise ObjectiveError(
            f"the objective returned {number} ({where}): expected a finite number; return "
            "the worst value it can have where it fails",
            reason=f"returned {number}",
        )
    return float(number)
