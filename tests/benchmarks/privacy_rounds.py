"""What privacy costs in time: epsilon of many rounds and settings, one release of many agents."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from fedsim.privacy.accountants import default_delta, make_accountant, privacy_loss
from fedsim.privacy.events import SubsampledGaussian
from fedsim.privacy.ledger import Ledger
from fedsim.privacy.loss_distribution import PldAccountant
from fedsim.privacy.mechanism import SubsampledGaussianMechanism
from fedsim.privacy.renyi import RdpAccountant
from fedsim.privacy.weights import WeightSchedule
from fedsim.protocol import Reply
from fedsim.rng import SERVER, Keys

ROUNDS = 60
FLEET: Any = None  # the mechanism does not use it


def epsilon_every_round(
    name: Literal["moments", "rdp", "pld"], accounting: Literal["paper", "exact"]
) -> tuple[float, float, int]:
    """Return CPU seconds, the final epsilon and the number of distinct keys."""
    mechanism = SubsampledGaussianMechanism(
        29, 100, 4, 22.0, 0.35, 1.0, WeightSchedule(hold=10, decay=30)
    )
    accountant, ledger, epsilon = make_accountant(name), Ledger(), 0.0
    start = time.process_time()
    for t in range(ROUNDS):
        ledger = ledger.charge(mechanism.cost(t))
        epsilon = privacy_loss(ledger, default_delta(29), accountant, accounting).epsilon
    return time.process_time() - start, epsilon, len(ledger.components(accounting))


def epsilon_of_a_long_run(rounds: int) -> tuple[float, float]:
    """Return CPU seconds of epsilon after 64 rounds of a long run, and of the last one alone."""
    event = SubsampledGaussian(0.25, 1.0, 1.0)
    accountant = PldAccountant()
    start = time.process_time()
    for n in np.linspace(1, rounds, 64).round().astype(int).tolist():
        privacy_loss(Ledger(((event, n),)), 1e-3, accountant)
    middle = time.process_time()
    privacy_loss(Ledger(((event, rounds),)), 1e-3, PldAccountant())
    return middle - start, time.process_time() - middle


def epsilon_of_extremes() -> Iterator[tuple[str, float, float, float]]:
    """Yield a setting in words, CPU seconds with pld and with rdp, and the ratio of the losses."""
    for q, z, rounds, delta in (
        (1e-6, 0.3, 1000, 1e-5),
        (1e-6, 0.5, 1000, 1e-5),
        (1e-6, 1.0, 10**6, 1e-5),
        (0.2, 1.0, 1023, 1e-13),
        (0.01, 0.3, 1000, 1e-5),
        (0.25, 1.0, 10**6, 1e-5),
    ):
        event, seconds, losses = SubsampledGaussian(q, z, z), [], []
        for accountant in (PldAccountant(), RdpAccountant()):
            start = time.process_time()
            loss = privacy_loss(Ledger(((event, rounds),)), delta, accountant)
            seconds.append(time.process_time() - start)
            losses.append(loss.epsilon)
        words = f"q={q:g}, z={z:g}, T={rounds}, delta={delta:g}"
        yield words, seconds[0], seconds[1], losses[0] / losses[1]


def release_of_many() -> tuple[float, float]:
    """Return wall seconds of one release of 10,000 agents, and of its matrix product alone."""
    agents, features, regions = 10_000, 100, 4
    mechanism = SubsampledGaussianMechanism(agents, features, regions, 22.0, 0.1, 1.0)
    vectors = np.random.default_rng(0).standard_normal((agents, features))
    replies = tuple(Reply(n, "ok", {"vector": v}) for n, v in enumerate(vectors))
    weights = np.random.default_rng(1).random((regions, agents))
    whole, product = [], []
    for t in range(5):
        start = time.perf_counter()
        mechanism.aggregate(t, replies, FLEET, Keys(0, SERVER, t))
        middle = time.perf_counter()
        weights @ vectors
        whole.append(middle - start)
        product.append(time.perf_counter() - middle)
    return min(whole), min(product)


def main() -> None:
    """Print the timings."""
    import dp_accounting.pld  # noqa: F401 - imports are not what is measured
    import scipy.optimize  # noqa: F401

    print(f"epsilon after every one of {ROUNDS} rounds (N=29, P=4, q=0.35, z=1), CPU seconds:")
    for name in ("moments", "rdp", "pld"):
        for accounting in ("paper", "exact"):
            with threadpool_limits(1):
                seconds, epsilon, keys = epsilon_every_round(name, accounting)
            print(f"  {name:8s}{accounting:6s}{seconds:7.2f} s  eps {epsilon:8.4f}  keys {keys}")
    for rounds in (400, 3000, 100_000):
        several, one = epsilon_of_a_long_run(rounds)
        print(
            f"epsilon after 64 of {rounds} rounds (q=0.25, z=1): {several:.2f} CPU s, "
            f"{several / one:.0f} times the last one's"
        )
    for words, pld, rdp, ratio in epsilon_of_extremes():
        print(f"{words}: pld {pld:.2f} CPU s, rdp {rdp:.2f}; epsilon is {ratio:.3f} of rdp's")
    whole, product = release_of_many()
    print(
        f"one release, N=10000, P=4, M=100: {1e3 * whole:.1f} ms "
        f"({whole / product:.0f} times its matrix product)"
    )


if __name__ == "__main__":
    main()
