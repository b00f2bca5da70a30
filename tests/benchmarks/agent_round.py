"""CPU time of one agent in one round, without its objective, part by part.

Budget: 4 ms on average for M = 100 features, D = 2 and 70 observations, hyper-parameter fit
included. Run it with ``python -m tests.benchmarks.agent_round`` on an idle machine.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import numpy as np
from threadpoolctl import threadpool_limits

import fedsim
from fedsim.acquisition import Piece, maximize, whole_cube
from fedsim.methods.local_model import LocalModelSettings
from fedsim.methods.queries import AcquisitionSettings, Queries
from fedsim.methods.shared_work import SharedWork, grid_indices
from fedsim.methods.summaries import Basis, Summaries, SummaryLayout
from fedsim.privacy.mechanism import SubsampledGaussianMechanism
from fedsim.protocol import Reply, Respondents
from fedsim.rng import SERVER, Keys, rng
from fedsim.space import Array, Parameter, Space
from fedsim.surrogates.exact_gp import condition
from fedsim.surrogates.fit import fit
from fedsim.surrogates.kernels import Kernel
from fedsim.surrogates.linear import linear_posterior
from fedsim.surrogates.paths import feature_count, sample_on_grid, sample_path
from fedsim.surrogates.rff import draw_features
from fedsim.surrogates.support import sobol_support
from fedsim.surrogates.warping import identity

BUDGET_MS = 4.0


def cpu_ms(work: Callable[[], object], batches: int = 15, repeats: int = 20) -> float:
    """Return the CPU time of one call in the least disturbed batch, in milliseconds."""
    work()
    times = []
    for _ in range(batches):
        start = time.process_time()
        for _ in range(repeats):
            work()
        times.append((time.process_time() - start) / repeats)
    return 1e3 * min(times)


def history(space: Space, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return observations of a smooth function, half of them near its best point."""
    f = draw_features(Kernel("squared_exponential", (0.2,), 1.0), space.dimension, 300, rng)
    w = rng.standard_normal(300)
    X = rng.random((count, space.dimension))
    best = X[np.argmax(f.matrix(X) @ w)]
    X[count // 2 :] = best + 0.1 * rng.standard_normal(X[count // 2 :].shape)
    X = np.array([space.snap(x) for x in X])
    return X, f.matrix(X) @ w + 0.05 * rng.standard_normal(count)


def continuous_parts() -> dict[str, float]:
    """Return the parts of a round in a continuous space, in milliseconds."""
    rng = np.random.default_rng(0)
    space = Space(tuple(Parameter(name, 0.0, 1.0) for name in ("a", "b")))
    settings, shared = LocalModelSettings(), SharedWork(space)
    X, y = history(space, 70, rng)
    public = draw_features(Kernel("squared_exponential", (0.1,), 1.0), 2, 100, rng)
    current = fit(settings.kernel, settings.ard, X, y - y.mean())
    candidates = shared.candidates(0, 1, settings.candidates)

    def message() -> Array:
        return linear_posterior(public.matrix(X), y, 1e-2).sample(rng)

    count = feature_count(current.noise_variance / current.kernel.variance)

    def sample() -> object:
        posterior = condition(current.kernel, current.noise_variance, X, y, float(y.mean()))
        return sample_path(posterior, count, settings.beta, rng)

    posterior = condition(current.kernel, current.noise_variance, X, y, float(y.mean()))
    path = sample_path(posterior, count, settings.beta, rng)
    ranking = path.ranking(candidates)
    piece = Piece(whole_cube(2), path)
    return {
        "message (posterior and sample)": cpu_ms(message),
        f"own sample ({count} features)": cpu_ms(sample),
        "candidates": cpu_ms(lambda: path.ranking(candidates)),
        "refinement": cpu_ms(
            lambda: maximize(space, (piece,), candidates, starts=settings.starts, ranking=ranking)
        ),
        f"fit / {settings.fit_every}": cpu_ms(
            lambda: fit(settings.kernel, settings.ard, X, y - y.mean()), repeats=4
        )
        / settings.fit_every,
        "aggregation (200 agents, P = 4)": aggregation(),
    }


def aggregation() -> float:
    """Return an agent's share of one release for 200 agents and 4 sub-regions, in milliseconds."""
    mechanism = SubsampledGaussianMechanism(200, 100, 4, 11.0, 0.25, 1.0)
    rng = np.random.default_rng(0)
    replies = tuple(Reply(n, "ok", {"vector": rng.standard_normal(100)}) for n in range(200))
    fleet = cast("Respondents", None)  # the mechanism does not ask again
    return cpu_ms(lambda: mechanism.aggregate(0, replies, fleet, Keys(0, SERVER, 0)), 10, 5) / 200


class Valley:
    """A free objective in two dimensions, so that all CPU time is fedsim's own."""

    space = Space((Parameter("a", 0.0, 1.0), Parameter("b", 0.0, 1.0)))
    direction = "minimize"

    def __init__(self, agents: int = 10):
        self.agents = agents

    def objective(self, agent: int) -> Callable[[Mapping[str, float], np.random.Generator], float]:
        """Return a bowl with ripples."""

        def valley(point: Mapping[str, float], rng: np.random.Generator) -> float:
            a, b = point["a"] - 0.3 - 0.01 * agent, point["b"] - 0.6
            ripples = 0.05 * math.sin(20 * a) * math.cos(15 * b)
            return a * a + b * b + ripples + 0.01 * rng.normal()

        return valley


def whole_rounds() -> tuple[float, float]:
    """Return CPU ms per agent and round of a whole run: agents, and server with everything else.

    20 agents, 10 initial points and 60 rounds of DP-FTS-DE with M = 100: up to 70 observations.
    """
    config = {
        "scenario": {"name": "tests.benchmarks.agent_round:Valley", "agents": 20},
        "method": {"name": "dp-fts-de", "subregions": 4, "own_probability": "1 - 1/t"},
        "rounds": 60,
        "backend": "serial",
    }
    with tempfile.TemporaryDirectory() as folder:
        run = fedsim.run(config, out=Path(folder) / "run")
        lines = [json.loads(x) for x in run.runs[0].folder.timings.read_text().splitlines()]
    agents = sum(line.get("agent_cpu_seconds", 0.0) for line in lines)
    objective = sum(line.get("objective_cpu_seconds", 0.0) for line in lines)
    server = sum(line.get("server_cpu_seconds", 0.0) for line in lines)
    return 1e3 * (agents - objective) / (20 * 60), 1e3 * server / (20 * 60)


def grid_parts() -> dict[str, float]:
    """Return the parts of a round on a 1-D grid of 1000 points, in milliseconds."""
    rng = np.random.default_rng(0)
    space = Space((Parameter("x", 0.0, 1.0, levels=1000),))
    settings = LocalModelSettings(length_scale=0.03, fit_every=0)
    shared = SharedWork(space)
    X, y = history(space, 50, rng)
    kernel = Kernel(settings.kernel, (settings.length_scale,), settings.variance)
    public = draw_features(kernel, 1, 50, rng)
    factor, observed = shared.grid_factor(kernel, identity(1), None), grid_indices(space, X)
    assert factor is not None
    noise = settings.noise_variance
    return {
        "message (posterior and sample)": cpu_ms(
            lambda: linear_posterior(public.matrix(X), y, noise).sample(rng)
        ),
        "own sample": cpu_ms(lambda: sample_on_grid(factor, observed, y, noise, 1.0, rng)),
    }


def generators() -> tuple[float, float]:
    """Return the CPU time of one key's generator, and of NumPy's own way to the same stream."""
    steps = itertools.count()

    def plainly() -> np.random.Generator:
        word = int.from_bytes(hashlib.sha256(b"noise").digest()[:4], "little")
        sequence = np.random.SeedSequence(0, spawn_key=(word, 4, next(steps), 0))
        return np.random.Generator(np.random.PCG64(sequence))

    return cpu_ms(lambda: rng(0, "noise", 3, next(steps)), repeats=500), cpu_ms(
        plainly, repeats=500
    )


def fedgp_parts() -> dict[str, float]:
    """Return the parts of a round of FBO-FedGP without encryption, in milliseconds.

    Ten clients with 30 observations each, in ten dimensions, 32 support points.
    """
    rng = np.random.default_rng(0)
    space = Space(tuple(Parameter(f"x{d}", 0.0, 1.0) for d in range(10)))
    data = [history(space, 30, rng) for _ in range(10)]
    settings = SummaryLayout("matern52", 1, True, True, 1e-4, 40)
    basis = Basis(sobol_support(space, 32, rng), np.log([0.8, 1e-2]), np.array([0.0, 1.0]))
    summaries, queries = Summaries(settings), Queries(AcquisitionSettings(), space)
    logs = np.log([0.8, 1e-2])
    whole = sum(summaries.vector(basis, X, y, logs) for X, y in data)
    assert isinstance(whole, np.ndarray)
    model, numbers = summaries.model(basis, whole), itertools.count()
    X, y = data[0]
    kernel = Kernel("matern52", (0.8,), 1.0)

    def query(shared: bool) -> Array:
        number = next(numbers)
        posterior = model.posterior if shared else condition(kernel, 1e-2, X, y - y.mean())
        return queries.choose(posterior, X, y, Keys(0, 0, number), 1)

    return {
        "summary": cpu_ms(lambda: summaries.vector(basis, X, y, logs), 8),
        "model of the sum / 10": cpu_ms(lambda: Summaries(settings).model(basis, whole), 8) / 10,
        "query, global (half of them)": cpu_ms(lambda: query(True), 8) / 2,
        "query, own (half of them)": cpu_ms(lambda: query(False), 8) / 2,
        "fit / 5": cpu_ms(lambda: fit("matern52", False, X, y - y.mean()), 8, 5) / 5,
    }


def report(title: str, parts: Mapping[str, float]) -> None:
    """Print parts with their shares, and the total against the budget and a yardstick.

    The yardstick, 100,000 cosines, distinguishes a slow program from a slow or busy machine.
    """
    total = sum(parts.values())
    angles = 20.0 * np.random.default_rng(0).random(100_000)
    yardstick = cpu_ms(lambda: np.cos(angles))
    print(title)
    for name, milliseconds in parts.items():
        print(f"  {name:<32} {milliseconds:7.3f} ms  {milliseconds / total:6.1%}")
    print(
        f"  {'total':<32} {total:7.3f} ms  {total / BUDGET_MS:.2f} of the budget, "
        f"{total / yardstick:.2f} of the yardstick ({yardstick:.2f} ms)"
    )


def main() -> None:
    """Print where an agent's CPU time goes."""
    with threadpool_limits(1):
        report("continuous: M = 100, D = 2, n = 70", continuous_parts())
        report("FBO-FedGP: D = 10, |S| = 32, n = 30, M = 10, plain sums", fedgp_parts())
        report("grid of 1000: M = 50, n = 50, fixed hyper-parameters", grid_parts())
    key, plain = generators()
    print(f"a key's generator: {1e3 * key:.1f} us, {key / plain:.2f} of NumPy's own way")
    agents, server = whole_rounds()
    print("a whole run: 20 agents, M = 100, D = 2, 10 to 70 observations, mean per agent and round")
    print(f"  agents, without the objective    {agents:7.3f} ms")
    print(f"  server, journal, checkpoints     {server:7.3f} ms")
    print(f"  total                            {agents + server:7.3f} ms")


if __name__ == "__main__":
    main()
