"""A conformance suite for scenarios, methods and aggregators of your own.

Call a check in a test: it raises :class:`ConformanceError` if the class does not follow its
protocol. It needs no files, no Ray and about a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np

from fedsim.acquisition import whole_cube
from fedsim.config.construct import require_scenario
from fedsim.errors import FedsimError
from fedsim.payloads import as_lists, frozen
from fedsim.protocol import (
    AgentId,
    Aggregator,
    Context,
    Method,
    Payload,
    Release,
    Replies,
    Reply,
    Respondents,
    Uncharged,
)
from fedsim.rng import SERVER, Keys, SystemKeys, rng
from fedsim.simulation.evaluation import call_once
from fedsim.simulation.in_memory import Bowl, run_in_memory
from fedsim.space import Array, Choice, Space, uniform_design
from fedsim.usercode.calling import offers
from fedsim.workload import KnowsOptimalPoint, KnowsOptimum, Scenario


class ConformanceError(AssertionError):
    """A class does not follow its protocol."""


def check_scenario(scenario: Scenario, *, points: int = 5, seed: int = 0) -> None:
    """Check a scenario with its first and its last agent.

    Args:
        scenario: an object, not its class.
        points: how many random points are evaluated, besides one with each option of each choice.
        seed: of the points and of the objectives' randomness.

    Raises:
        ConformanceError: if an attribute is missing, an objective fails, changes its point, or
            gives two values for one key, a noiseless value is better than the optimum, or that of
            the optimal point is not the optimum.
    """
    try:
        name = getattr(scenario, "__name__", "")
        _expect(not isinstance(scenario, type), f"an object, got the class: pass {name}(...)")
        require_scenario(scenario, type(scenario).__name__)
        for agent in sorted({0, int(scenario.agents) - 1}):
            _check_objective(scenario, agent, points, seed)
            _check_optimal_point(scenario, agent, seed)
    except FedsimError as error:
        raise ConformanceError(str(error)) from error


def _check_objective(scenario: Scenario, agent: AgentId, points: int, seed: int) -> None:
    space = scenario.space
    cube, generator = whole_cube(space.dimension), rng(seed, "conformance", agent, 0)
    design = [*uniform_design(space, cube, points, generator), *_every_option(space)]
    sign = 1.0 if scenario.direction == "maximize" else -1.0
    optimum = scenario.optimum(agent) if offers(scenario, KnowsOptimum) else None
    for step, u in enumerate(design):
        point = space.to_point(u)
        given, where, keys = dict(point), f"agent {agent}, point {point}", Keys(seed, agent, step)
        first = call_once(scenario.objective(agent), given, keys("objective"), where)
        _expect(given == point, f"the objective to leave its point alone ({where})")
        again = call_once(scenario.objective(agent), dict(point), keys("objective"), where)
        _expect(
            first == again,
            f"equal values for equal randomness, got {first} and {again} ({where}): draw only "
            "from rng",
        )
        if optimum is not None and first.noiseless is not None:
            better = sign * (first.noiseless - optimum) > 1e-9 * max(1.0, abs(optimum))
            _expect(
                not better, f"no value better than the optimum {optimum}, got {first} ({where})"
            )


def _check_optimal_point(scenario: Scenario, agent: AgentId, seed: int) -> None:
    """Check that the objective's noiseless value at the optimal point is the optimum."""
    space, objective = scenario.space, scenario.objective(agent)
    optimum = scenario.optimum(agent) if offers(scenario, KnowsOptimum) else None
    point = scenario.optimal_point(agent) if offers(scenario, KnowsOptimalPoint) else None
    if point is None:
        return
    where, keys = f"agent {agent}, its optimal point", Keys(seed, agent, 0)
    found = call_once(objective, space.checked(point), keys("objective"), where).noiseless
    if found is not None and optimum is not None:
        apart = abs(found - optimum) > 1e-6 * max(1.0, abs(optimum))
        _expect(not apart, f"the optimum {optimum}, got {found} ({where})")


def _every_option(space: Space) -> Iterator[Array]:
    """Yield a point with each option of each choice; all else is in the middle."""
    for d, parameter in enumerate(space.parameters):
        if isinstance(parameter, Choice):
            for option in parameter.options:
                u = np.full(space.dimension, 0.5)
                u[d] = parameter.to_unit(option)
                yield space.snap(u)


def check_method(
    factory: Callable[[Context], Method],
    *,
    scenario: Scenario = Bowl(),  # noqa: B008 - frozen
    rounds: int = 4,
    seed: int = 0,
) -> None:
    """Run a method twice: undisturbed, and with all its programs rebuilt before every call.

    Both runs must be the same: an agent is a function of its settings, history and messages, a
    server of its settings and state, and all randomness comes from their keys. Agents that can
    prepare their steps do so only in the first run.

    Args:
        factory: makes the method, e.g. ``lambda context: MyMethod(context, beta=2)``.
        scenario: what it optimises.
        rounds: queries after the initial design.
        seed: of the run.

    Raises:
        ConformanceError: with the first difference, or what a program did wrong.
    """
    context = Context(scenario.space, int(scenario.agents), rounds, seed)
    try:
        undisturbed = run_in_memory(factory, scenario, context, restart=False)
        restarted = run_in_memory(factory, scenario, context, restart=True)
    except FedsimError as error:
        raise ConformanceError(str(error)) from error
    for one, other in zip_longest(undisturbed, restarted):
        _expect(
            one == other,
            f"the same from programs that were rebuilt from history and state, got {other} "
            f"instead of {one}",
        )


def check_aggregator(
    factory: Callable[[], Aggregator], replies: Replies, *, fleet: Respondents | None = None
) -> None:
    """Check an aggregator's releases 0 and 1.

    Args:
        factory: makes it.
        replies: what agents may answer, one reply per agent; they are also tried missing: then
            there may be no payload, if nothing is promised (the cost is ``NOT_PRIVATE``).
        fleet: the agents, for its own requests; None if it makes none.

    Raises:
        ConformanceError: if a release depends on anything but its arguments and state, its cost
            is not the announced one, or its cost or form depends on the replies.
    """
    given = tuple(replace(r, payload=frozen(r.payload, f"agent {r.agent}")) for r in replies)
    absent = tuple(Reply(r.agent, "missing", {}) for r in replies)
    original, copy = factory(), factory()
    for t in (0, 1):
        costs = [original.cost(t), factory().cost(t)]
        _expect(costs[0] == costs[1], f"one cost of release {t}, got {costs}")
        release = _released(original, t, given, fleet, Keys(0, SERVER, t))
        again = _released(copy, t, given, fleet, Keys(0, SERVER, t))
        same = as_lists(release.payload) == as_lists(again.payload)
        _expect(same, f"release {t} to depend only on the replies, the state and rng")
        for answers, randomness in ((absent, Keys(0, SERVER, t)), (given, SystemKeys())):
            other = _released(factory(), t, answers, fleet, randomness)
            # Whether there is a release tells who answered: not where privacy is promised.
            none = other.payload is None and answers is absent
            _expect(
                _form(other.payload) == _form(release.payload)
                or (none and release.cost is Uncharged.NOT_PRIVATE),
                f"release {t} to have one form for any replies, got {_form(other.payload)} "
                f"and {_form(release.payload)}",
            )
        copy = factory()
        copy.restore({name: np.array(array) for name, array in original.state().items()})


def _released(
    aggregator: Aggregator, t: int, replies: Replies, fleet: Any, randomness: Keys | SystemKeys
) -> Release:
    release = aggregator.aggregate(t, replies, fleet, randomness)
    cost = aggregator.cost(t)
    _expect(release.cost == cost, f"release {t} to cost {cost} as announced, got {release.cost}")
    return release


def _form(payload: Payload | None) -> Any:
    return None if payload is None else {n: np.asarray(a).shape for n, a in payload.items()}


def _expect(condition: bool, expected: str) -> None:
    if not condition:
        raise ConformanceError(f"expected {expected}")
