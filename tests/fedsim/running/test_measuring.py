"""What one evaluation takes is measured once, and the evaluation is not lost."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.config.experiment import prepare
from fedsim.errors import FedsimError, ObjectiveError
from fedsim.resources import Resources
from fedsim.running.jobs import Listener
from fedsim.running.measuring import FirstEvaluation
from fedsim.running.preflight import check, settled
from tests.util.called import calls, let_go
from tests.util.processes import COMMAND
from tests.util.small import UserModule, small, write

ROOT = Path(__file__).parents[3]

COUNTED = """
    import time
    from fedsim.resources import Resources
    from fedsim.space import Parameter, Space
    from tests.util.called import calls, let_go

    class Mine:
        space, direction, agents = Space((Parameter("x", 0, 1),)), "maximize", 2

        def __init__(self, seed: int, cpus: float = 0.0):
            self.seed, self.cpus = seed, cpus

        def objective(self, agent):
            return Objective(self.seed, agent, self.cpus)

    class Objective:
        def __init__(self, seed, agent, cpus):
            self.seed, self.agent = seed, agent
            self.resources = Resources(cpus) if cpus else None

        def __call__(self, point, rng):
            calls.append((self.seed, self.agent))
            {body}
            return point["x"] + rng.normal()
"""


@pytest.fixture(autouse=True)
def _two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsim.running.placement.usable_cpus", lambda: 2)
    calls.clear()
    let_go.clear()


def counted(user_module: UserModule, body: str = "pass", **changes: Any) -> dict[str, Any]:
    return small(scenario={"name": f"{user_module(COUNTED.format(body=body))}:Mine"}, **changes)


def first(raw: dict[str, Any]) -> FirstEvaluation | None:
    (found,) = settled(check(prepare(raw)), True, Listener()).values()
    return found.first


def test_the_first_evaluation_counts_for_the_run(here: Path, user_module: UserModule) -> None:
    """The objective is called again only to see what it costs once everything is loaded."""
    raw = counted(user_module, seeds=[3, 4])
    fedsim.run(raw, out="measured")
    measured = calls.copy()
    calls.clear()
    fedsim.run(raw, out="reference", jobs=1)
    assert measured == [(3, 0), *calls]
    for seed in (3, 4):
        journals = [Path(f) / f"seed-{seed}/journal.jsonl" for f in ("measured", "reference")]
        assert journals[0].read_bytes() == journals[1].read_bytes()


def test_a_long_one_is_not_repeated(here: Path, user_module: UserModule) -> None:
    raw = counted(user_module, "time.sleep(1.01 if len(calls) == 1 else 0)", seeds=[3, 4])
    fedsim.run(raw, jobs=1, out="one")
    calls.clear()
    found = first(raw)
    assert found is not None
    assert found.seconds >= 1.01
    assert (found.design, found.spec.seed) == (2, 3)
    assert calls == [(3, 0)]


def test_what_is_loaded_at_first_does_not_count(here: Path, user_module: UserModule) -> None:
    found = first(counted(user_module, "time.sleep(0.3 if len(calls) == 1 else 0)"))
    assert found is not None
    assert found.seconds < 0.3


@pytest.mark.parametrize("trouble", ["1 / 0", "return None"])
def test_a_failure_is_left_to_the_run(here: Path, user_module: UserModule, trouble: str) -> None:
    raw = counted(user_module, trouble, seeds=[0, 1])
    assert first(raw) is None
    with pytest.raises(ObjectiveError, match=r"^the objective r.* \(agent 0, round 0"):
        fedsim.run(raw)
    assert fedsim.load("runs/small-1").runs[0].status == "failed"


def test_one_that_hangs_is_named(here: Path, user_module: UserModule) -> None:
    raw = counted(user_module, "let_go.wait(600)", deadlines={"evaluation": 0.1})
    start = time.monotonic()
    with pytest.raises(ObjectiveError, match=r"did not return within 0\.1 s \(agent 0, round 0"):
        first(raw)
    assert time.monotonic() - start < 300
    let_go.set()


def test_a_long_wait_is_told_once(
    here: Path, user_module: UserModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsim.running.measuring.TELL_SECONDS", 0.2)
    told: list[str] = []

    class Waiting(Listener):
        def measuring(self) -> None:
            told.append("measuring")

    quick, slow = counted(user_module), counted(user_module, "time.sleep(1.01)")
    settled(check(prepare(quick)), True, Waiting())
    assert told == []
    settled(check(prepare(slow)), True, Waiting())
    assert told == ["measuring"]


@pytest.mark.parametrize(
    ("backend", "measured"), [("auto", False), ("serial", True)], ids=["auto", "serial"]
)
def test_what_runs_as_a_task_is_not_measured(
    here: Path, user_module: UserModule, backend: str, measured: bool
) -> None:
    raw = counted(user_module, backend=backend)
    raw["scenario"]["cpus"] = 1.0
    assert (first(raw) is not None) == measured
    (found,) = check(prepare(raw)).values()
    assert (found.evaluation, found.first) == (Resources(1.0), None)


@pytest.mark.parametrize(
    ("changes", "arguments", "words"),
    [
        ({}, {"out": "taken"}, "out: taken already exists"),
        ({}, {"out": "file/run"}, "cannot be written: Not a directory"),
        ({}, {"jobs": "many"}, "jobs: expected auto"),
        ({"address": "foo"}, {}, "address: expected HOST:PORT or auto, got 'foo'"),
        ({"variants": {"a": {}, "b": {"method": {"initial_points": 10**9}}}}, {}, "10,000"),
    ],
)
def test_mistakes_are_found_before_anything_is_evaluated(
    here: Path,
    user_module: UserModule,
    changes: dict[str, Any],
    arguments: dict[str, Any],
    words: str,
) -> None:
    (here / "taken").mkdir()
    (here / "file").touch()
    raw = counted(user_module, backend="auto", **changes)
    with pytest.raises(FedsimError, match=words) as raised:
        fedsim.run(raw, **arguments)
    assert raised.value.exit_code == 2
    assert calls == []
    assert not Path("runs").exists()


@pytest.mark.parametrize("out", [None, "parent/run"])
def test_one_that_hangs_leaves_no_folder(
    here: Path, user_module: UserModule, out: str | None
) -> None:
    (here / "parent").mkdir()
    changes: dict[str, Any] = {"backend": "auto", "deadlines": {"evaluation": 0.1}}
    with pytest.raises(ObjectiveError, match="did not return") as raised:
        fedsim.run(counted(user_module, "let_go.wait(600)", **changes), out=out)
    let_go.set()
    assert raised.value.folder is None
    assert not Path("runs").exists()
    assert list((here / "parent").iterdir()) == []


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("trouble", "code", "words"),
    [
        ("import os; os._exit(0)", 0, ""),
        pytest.param(
            "import signal; signal.raise_signal(signal.SIGSEGV)",
            -signal.SIGSEGV,
            "Segmentation",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_one_that_ends_fedsim_leaves_the_run_folder(
    here: Path, user_module: UserModule, trouble: str, code: int, words: str
) -> None:
    """Nothing can be reported then; the module works when the run is resumed."""
    body = f"import pathlib; pathlib.Path('once').exists() or ({once(trouble)})"
    config = write(counted(user_module, body, seeds=[0, 1], backend="auto"))
    script = "import fedsim.running.placement as p; p.usable_cpus = lambda: 2; "
    command = [COMMAND[0], "-c", script + COMMAND[2], "run", config, "--out", "run"]
    ended = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},  # the module imports from the tests
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (ended.returncode, words in ended.stderr) == (code, True), ended.stderr
    assert not list(Path("run").glob("seed-*"))  # it was being measured
    assert [one.status for one in fedsim.resume("run").runs] == ["done", "done"]


def once(trouble: str) -> str:
    """Return an expression that makes trouble once."""
    return f"pathlib.Path('once').touch(), exec({trouble!r})"
