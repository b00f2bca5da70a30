"""One call of one agent's objective."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsim.arguments import WHOLE, as_plain, check_arguments
from fedsim.config.construct import build_scenario
from fedsim.config.experiment import prepare
from fedsim.config.reading import require_assignments
from fedsim.config.ready import ready_names
from fedsim.errors import ConfigError
from fedsim.files import user_path
from fedsim.protocol import AgentId
from fedsim.rng import Keys
from fedsim.simulation.calls import hung
from fedsim.simulation.evaluation import build_objective, call_once
from fedsim.space import Value
from fedsim.streams import streams_kept
from fedsim.usercode.calling import user_stack
from fedsim.workload import Evaluation


@streams_kept()
def evaluate_once(
    scenario: object,
    point: Mapping[str, Value] | Sequence[Value],
    *,
    agent: AgentId = 0,
    seed: int = 0,
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
) -> tuple[dict[str, Value], Evaluation]:
    """Call an agent's objective at a point.

    Args:
        scenario: a configuration, its file or ready name, or a scenario: its name, section, class
            or object.
        point: the parameters' values, by name or in order.
        agent: the agent.
        seed: the run's seed.
        overrides: ``dotted.key=value`` assignments.
        data_dir: the folder of the data sets; by default the environment's ``FEDSIM_DATA``.

    Returns:
        The point by name, and its evaluation.

    Raises:
        ConfigError: if the scenario, the point or the agent is wrong.
        UserCodeError: if the scenario or the objective raises, or misses its deadline.
    """
    check_arguments(agent=(agent, WHOLE), seed=(seed, WHOLE))
    agent, seed = as_plain(agent), as_plain(seed)
    minimal = {"scenario": scenario, "method": {"name": "random-search"}, "rounds": 1}
    source: Any = scenario if _is_configuration(scenario) else minimal
    require_assignments(overrides)
    experiment = prepare(source, [f"seeds={seed}", *overrides], data_dir)
    variant = next(iter(experiment.variants.values()))
    spec = experiment.spec(variant, seed)
    built = build_scenario(spec)
    if agent is None or not 0 <= agent < built.agents:
        raise ConfigError(f"agent: expected 0 to {built.agents - 1}, got {agent}")
    named = built.space.checked(point)
    objective = build_objective(spec, built, agent)
    where = f"agent {agent}, point {named}"
    rng = Keys(seed, agent, 0)("objective")
    call = _Call(lambda: call_once(objective, named, rng, where))
    return named, call.result(variant.deadlines.evaluation, where)


class _Call(threading.Thread):
    """A call in a thread of its own, as in a run, so that one that hangs is noticed.

    Args:
        call: what to call.
    """

    def __init__(self, call: Callable[[], Evaluation]) -> None:
        super().__init__(daemon=True, name="fedsim-evaluating")
        self._call = call
        self._done = threading.Event()
        self._found: Evaluation | None = None
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._found = self._call()
        except BaseException as error:
            self._failure = error
        finally:
            self._done.set()

    def result(self, deadline: float, where: str) -> Evaluation:
        """Start the call and return what it returns, or raise what it raises.

        Args:
            deadline: seconds that it may take.
            where: identifies it in errors.

        Raises:
            ObjectiveError: if it misses its deadline; its thread goes on until it returns.
        """
        self.start()
        if not self._done.wait(deadline):
            frame = sys._current_frames().get(self.ident or 0)
            stack = "" if frame is None else f"It hangs here:\n{user_stack(frame)}"
            raise hung(where, deadline, stack)
        if self._failure is not None:
            raise self._failure
        assert self._found is not None
        return self._found


def _is_configuration(scenario: Any) -> bool:
    if isinstance(scenario, Mapping):
        return "scenario" in scenario
    if isinstance(scenario, (str, Path)):
        return str(scenario) in ready_names() or user_path(scenario).is_file()
    return False
