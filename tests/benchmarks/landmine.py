"""The landmine experiment of DP-FTS-DE on Ray, and how well evaluations fill the machine.

Run it with ``python -m tests.benchmarks.landmine`` on an idle machine, with the data set in the
folder that FEDSIM_DATA names or next to the checkout. CPU times are those of the driver's process,
the server and the hosts, without Ray's own processes.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import fedsim
import fedsim.config.reading
from fedsim.record.timings import read_timings
from fedsim.resources import usable_cpus
from fedsim.scenarios.landmine import FieldObjective, Landmine
from fedsim.space import Value
from tests.benchmarks import sleeper

ROOT = Path(__file__).parents[2]
AGENTS, ROUNDS = 29, 60
MILLISECONDS_BUDGET = 4.0
SPEEDUP_BUDGET = 1.7
OBJECTIVE_BUDGET = 0.7
REPEATS = 3
AUTHORS_CPU_SECONDS = 200.0
"""The authors' published code for the same run with `platt`, measured on another machine."""

PUBLISHED_MILLISECONDS = 10.8
"""One call of the published objective there, with scikit-learn 1.9: mean of uniform points."""


@dataclass(frozen=True)
class Outcome:
    """What one run took.

    Attributes:
        objective: CPU seconds in objectives.
        other: CPU seconds of agents and server beside them.
        driver: CPU seconds of the driver's process, from the call to the return.
        seconds: wall time of the rounds after the first, which holds the start of the hosts.
    """

    objective: float
    other: float
    driver: float
    seconds: float


def measure(config: Mapping[str, Any], data: Path | None = None) -> Outcome:
    """Run once and return what it took."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        fedsim.run(config, data_dir=data, out=Path(folder) / "run")
        driver = time.process_time() - start
        path = next((Path(folder) / "run").glob("**/timings.jsonl"))
        timings = read_timings(path)
    seconds = sum(seconds for t, seconds in timings.round_seconds if t > 0)
    return Outcome(timings.objective_seconds, timings.other_seconds, driver, seconds)


def landmine(backend: str, score: str) -> dict[str, Any]:
    """Return the paper's setting: q = 0.35, z = 1, P = 4, S = 22, M = 100."""
    config = fedsim.config.reading.read_config("landmine")
    return {
        **config,
        "scenario": {**config["scenario"], "score": score},
        "rounds": ROUNDS,
        "backend": backend,
        "variants": {},
    }


def published(objective: FieldObjective, point: Mapping[str, Value]) -> float:
    """Evaluate the published objective: a single call of scikit-learn's SVC, and the AUC."""
    from sklearn.metrics import roc_auc_score
    from sklearn.svm import SVC

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # SVC's probabilities are on their way out
        model = SVC(probability=True, **point)
        model.fit(objective.train.features, objective.train.labels)
        scores = model.predict_proba(objective.validation.features)[:, 1]
    return float(roc_auc_score(objective.validation.labels, scores))


def objective_milliseconds() -> tuple[float, float]:
    """Return the CPU time of one call of the published objective, and of ours with `platt`.

    At the same uniform points of all fields, in turns, since machines change their speed; with one
    thread, as in a run.
    """
    scenario = Landmine(score="platt", data_dir=data_folder())
    generator = np.random.default_rng(0)
    objectives = [scenario.objective(agent) for agent in range(AGENTS)]
    theirs = ours = 0.0
    points = generator.random((11, AGENTS, 2))
    with threadpool_limits(1):
        for number, row in enumerate(points):
            for u, objective in zip(row, objectives, strict=True):
                point = scenario.space.to_point(u)
                start = time.process_time()
                published(objective, point)
                middle = time.process_time()
                objective(point, generator)
                if number > 0:  # the first loads libraries and computes distances
                    theirs += middle - start
                    ours += time.process_time() - middle
    calls = points[1:, :, 0].size
    return 1e3 * theirs / calls, 1e3 * ours / calls


def data_folder() -> Path:
    """Return the folder of the data sets."""
    return Path(os.environ.get("FEDSIM_DATA") or ROOT.parent / "shared" / "data")


def report_landmine() -> None:
    """Print CPU per agent and round, of the whole run, and the speed-up of Ray."""
    theirs, ours = objective_milliseconds()
    slowness = theirs / PUBLISHED_MILLISECONDS
    print(
        f"the published objective takes {theirs:.1f} ms here, {PUBLISHED_MILLISECONDS} where "
        f"the authors' code was measured: this machine is {slowness:.2f} times slower"
    )
    print(
        f"ours, `platt`, takes {ours:.1f} ms: {ours / theirs:.2f} times the published one (at most "
        f"{OBJECTIVE_BUDGET})"
    )
    for score in ("decision", "platt"):
        print(f"{score}:")
        rows = [one_after_another(score) for _ in range(REPEATS)]
        report_cpu(score, [row.serial for row in rows], [row.on_ray for row in rows], slowness)
        speedup = sum(row.serial.seconds for row in rows) / sum(row.on_ray.seconds for row in rows)
        ceiling = 2 * sum(row.serial.seconds for row in rows) / sum(row.pair for row in rows)
        print(
            f"  rounds 1-{ROUNDS}, {REPEATS} times: Ray {speedup:.2f} times as fast as serial (at "
            f"least {SPEEDUP_BUDGET} on 2 CPUs); two serial runs at once, each by itself, "
            f"{ceiling:.2f} times: {speedup / ceiling:.2f} of what this machine gives"
        )


@dataclass(frozen=True)
class Row:
    """The same run in one process, on Ray, and twice at once in two processes.

    Attributes:
        serial: alone, in one process.
        on_ray: on Ray.
        pair: wall seconds of the slower of two serial runs that began together.
    """

    serial: Outcome
    on_ray: Outcome
    pair: float


def one_after_another(score: str) -> Row:
    """Measure a row: its parts follow each other at once, since machines change their speed."""
    data = data_folder()
    serial = measure(landmine("serial", score), data)
    on_ray = measure(landmine("ray", score), data)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        both = [pool.submit(measure, landmine("serial", score), data) for _ in range(2)]
        pair = max(each.result().seconds for each in both)
    print(
        f"  serial {serial.seconds:.1f} s, Ray {on_ray.seconds:.1f} s, two serial runs at once "
        f"{pair:.1f} s"
    )
    return Row(serial, on_ray, pair)


def report_cpu(
    score: str, serial: Sequence[Outcome], on_ray: Sequence[Outcome], slowness: float
) -> None:
    """Print CPU times, means of some runs, against their budgets."""
    per, inside = (
        1e3 * float(np.mean([run.other for run in runs])) / AGENTS / ROUNDS
        for runs in (on_ray, serial)
    )
    objective, driver = (
        float(np.mean([getattr(run, name) for run in on_ray])) for name in ("objective", "driver")
    )
    print(
        f"  on Ray: {objective:.1f} CPU s in objectives, {driver:.1f} in the driver with Ray's "
        f"start; beyond the objective {per:.2f} ms per agent and round ({inside:.2f} in one "
        f"process): {per / MILLISECONDS_BUDGET:.2f} of the budget, at the other machine's speed "
        f"{per / slowness / MILLISECONDS_BUDGET:.2f}"
    )
    if score == "platt":  # as the authors' code does
        whole, authors = objective + driver + per * AGENTS * ROUNDS / 1e3, AUTHORS_CPU_SECONDS
        print(
            f"  whole run: {whole:.0f} CPU s; the authors' code: {authors:.0f} on its machine, "
            f"{authors * slowness:.0f} at this one's speed: {whole / authors / slowness:.2f} of it"
        )


def report_efficiency() -> None:
    """Print how much of the machine evaluations of a known duration use, as tasks and in hosts."""
    cpus = usable_cpus()
    for milliseconds, rounds in ((10, 30), (100, 15), (1000, 4)):
        config = {
            "scenario": {"name": f"{sleeper.__name__}:Busy", "seconds": milliseconds / 1e3},
            "method": {"name": "random-search", "initial_points": 1},
            "rounds": rounds,
            "backend": "ray",
        }
        ideal = sleeper.AGENTS * rounds * milliseconds / 1e3 / cpus
        for kind, resources in (("hosts", None), ("tasks", {"cpus": 1.0})):
            outcome = measure({**config, "resources": resources})
            print(
                f"{milliseconds:5d} ms in {kind}: {outcome.seconds:6.2f} s for {ideal:.2f} s of "
                f"work on {cpus} CPUs: efficiency {ideal / outcome.seconds:.2f}"
            )


def main() -> None:
    """Print everything; the landmine part only if its data set exists."""
    if (data_folder() / "landmine").is_dir():
        report_landmine()
    else:
        print("the landmine data set is missing: set FEDSIM_DATA")
    report_efficiency()


if __name__ == "__main__":
    main()
