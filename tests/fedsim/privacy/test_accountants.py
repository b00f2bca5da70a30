from __future__ import annotations

import math
import pickle
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import dp_accounting as dp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedsim.errors import ConfigError
from fedsim.privacy.accountants import (
    Accountant,
    AccountantName,
    PrivacyLoss,
    default_delta,
    make_accountant,
    privacy_loss,
)
from fedsim.privacy.budget import Budget
from fedsim.privacy.events import FixedSizeGaussian, SubsampledGaussian
from fedsim.privacy.forward_differences import even_differences
from fedsim.privacy.ledger import Bound, Component, Ledger
from fedsim.privacy.loss_distribution import PldAccountant
from fedsim.privacy.mechanism import SubsampledGaussianMechanism
from fedsim.privacy.renyi import (
    MOMENT_ORDERS,
    MomentsAccountant,
    RdpAccountant,
    fixed_size_divergences,
)
from fedsim.privacy.weights import WeightSchedule
from fedsim.protocol import PrivacyEvent
from fedsim.results.losses import epsilons

# Shared, so that accountants with filled caches are tested, too.
MOMENTS, RDP, PLD = MomentsAccountant(), RdpAccountant(), PldAccountant()
RDP_INTEGER = RdpAccountant(MOMENT_ORDERS)
RDP_FEW = RdpAccountant((1.25, 1.5, 2.0, 3.5, 6.0, 10.0, 20.0, 64.0))  # for speed


def ledger(q: float, z: float, releases: int) -> Ledger:
    return Ledger(((SubsampledGaussian(q, z, z), releases),)) if releases else Ledger()


def epsilon(accountant: Accountant, q: float, z: float, releases: int, delta: float) -> float:
    return privacy_loss(ledger(q, z, releases), delta, accountant).epsilon


# N, T, q, z; moments as printed; moments, integer RDP, default RDP, PLD at N^-1.1; RDP and PLD
# at 1e-5.
PUBLISHED = [
    (200, 40, 0.15, 1.0, 5.93, 5.9341, 4.9794, 4.8778, 3.9636, 7.79, 6.89),
    (200, 40, 0.25, 1.0, 9.91, 9.9085, 8.5222, 8.4061, 7.0538, 12.60, 11.28),
    (200, 40, 0.50, 1.0, 20.12, 20.1231, 18.7368, 18.4025, 15.7100, 24.42, 22.51),
    (200, 40, 0.25, 1.2, 7.39, 7.3906, 6.4358, 6.1795, 5.1524, 9.28, 8.37),
    (200, 40, 0.25, 1.5, 5.22, 5.2225, 4.2678, 4.2657, 3.5972, 6.58, 5.94),
    (29, 60, 0.35, 1.0, 15.17, 15.1655, 13.7792, 13.4953, 10.3834, 21.59, 19.74),
    (29, 60, 0.35, 1.6, 7.12, 7.1176, 5.7314, 5.7314, 4.6111, 10.51, 9.64),
    (29, 60, 0.35, 2.0, 5.14, 5.1375, 4.1827, 4.1764, 3.2296, 7.75, 7.08),
    (29, 60, 0.35, 3.0, 3.05, 3.0464, 2.2187, 2.2138, 1.7399, 4.58, 4.20),
    (29, 60, 0.35, 4.0, 2.16, 2.1608, 1.4577, 1.4577, 1.1342, 3.22, 2.96),
    (29, 60, 0.10, 1.0, 3.75, 3.7548, 2.8000, 2.7423, 2.0099, 6.34, 5.57),
    (29, 60, 0.15, 1.0, 5.98, 5.9800, 4.5937, 4.4823, 3.4261, 9.33, 8.32),
    (29, 60, 0.20, 1.0, 7.69, 7.6924, 6.3061, 6.3061, 4.9861, 12.40, 11.10),
    (29, 60, 0.25, 1.0, 9.82, 9.8245, 8.4382, 8.4382, 6.6721, 15.45, 13.93),
]

# q, z; moments, integer RDP, PLD for N = 30, then for N = 50; 60 rounds.
OTHER_SIZES = [
    (0.35, 1.0, (15.2028, 13.8165, 10.4440), (15.7647, 14.3784, 11.3229)),
    (0.35, 1.6, (7.1549, 5.7686, 4.6445), (7.7168, 6.3306, 5.1266)),
    (0.35, 2.0, (5.1561, 4.2014, 3.2555), (5.4371, 4.4823, 3.6292)),
    (0.35, 3.0, (3.0588, 2.2374, 1.7568), (3.2462, 2.4964, 2.0008)),
    (0.35, 4.0, (2.1702, 1.4702, 1.1471), (2.3106, 1.6575, 1.3311)),
    (0.10, 1.0, (3.7734, 2.8186, 2.0316), (4.0544, 3.0996, 2.3479)),
    (0.15, 1.0, (6.0173, 4.6310, 3.4564), (6.5792, 5.1929, 3.8990)),
    (0.20, 1.0, (7.7297, 6.3434, 5.0246), (8.2916, 6.9053, 5.5851)),
    (0.25, 1.0, (9.8618, 8.4755, 6.7183), (10.4237, 9.0374, 7.3902)),
]


@pytest.mark.parametrize("row", PUBLISHED, ids=str)
def test_published_table(row: tuple[float, ...]) -> None:
    agents, rounds, q, z, paper, moments, integer, rdp, pld, rdp_small, pld_small = row
    delta = default_delta(int(agents))
    run = (q, z, int(rounds))
    old = epsilon(MOMENTS, *run, delta)
    assert round(old, 2) == pytest.approx(paper, abs=0.0051)  # as printed, last digit included
    assert old == pytest.approx(moments, abs=1e-4)
    assert epsilon(RDP_INTEGER, *run, delta) == pytest.approx(integer, abs=1e-4)
    assert epsilon(RDP, *run, delta) == pytest.approx(rdp, abs=1e-4)
    assert epsilon(PLD, *run, delta) == pytest.approx(pld, abs=2e-4)
    # Two printed decimals, one of them rounded twice.
    assert epsilon(RDP, *run, 1e-5) == pytest.approx(rdp_small, abs=0.006)
    assert epsilon(PLD, *run, 1e-5) == pytest.approx(pld_small, abs=0.006)


@pytest.mark.parametrize("row", OTHER_SIZES, ids=str)
def test_table_for_other_sizes(
    row: tuple[float, float, tuple[float, ...], tuple[float, ...]],
) -> None:
    q, z, *expected = row
    accountants: tuple[Accountant, ...] = (MOMENTS, RDP_INTEGER, PLD)
    for agents, values in zip((30, 50), expected, strict=True):
        for accountant, value in zip(accountants, values, strict=True):
            found = epsilon(accountant, q, z, 60, default_delta(agents))
            assert found == pytest.approx(value, abs=2e-4)


def test_reference_vectors() -> None:
    delta = default_delta(200)
    assert delta == pytest.approx(0.0029435200932623716, rel=1e-14)
    assert epsilon(MOMENTS, 0.25, 1, 40, delta) == pytest.approx(9.9085, abs=5e-4)  # P1
    assert epsilon(PLD, 0.15, 1, 40, delta) == pytest.approx(3.9636, abs=1e-3)  # P2
    p3 = epsilon(RDP_INTEGER, 0.35, 2, 60, default_delta(29))
    assert p3 == pytest.approx(4.1827, abs=5e-4)
    # One release more or fewer does not reproduce the paper.
    assert epsilon(MOMENTS, 0.25, 1, 41, delta) == pytest.approx(10.01, abs=0.005)


@pytest.mark.parametrize(
    ("alpha", "beta", "sigma"),
    [(1, 0.1, 1.0858778), (0.5, 0.01, 3.1469131), (10, 0.1, 0.2818121), (1, 1e-5, 3.7306316)],
)
def test_an_unsampled_gaussian_is_exact(alpha: float, beta: float, sigma: float) -> None:
    # P4, the other way round; a release of std sigma sqrt(k), k times, costs the same.
    assert epsilon(PLD, 1, sigma, 1, beta) == pytest.approx(alpha, rel=2e-6)
    assert epsilon(PLD, 1, sigma * 3, 9, beta) == pytest.approx(alpha, rel=2e-6)
    mixed = ledger(1, sigma * 2**0.5, 1).charge(SubsampledGaussian(1, sigma * 2, sigma * 2))
    mixed = mixed.charge(SubsampledGaussian(1, sigma * 2, sigma * 2))
    assert privacy_loss(mixed, beta, PLD).epsilon == pytest.approx(alpha, rel=2e-6)
    # Mixed with a sampled release that costs next to nothing, the grid gives the same.
    nothing = mixed.charge(SubsampledGaussian(1e-6, 50, 50))
    assert privacy_loss(nothing, beta, PLD).epsilon == pytest.approx(alpha, rel=2e-3)


@pytest.mark.parametrize("number", [int, float, np.float32, np.int64])
def test_integer_trap(number: Any) -> None:
    import dp_accounting as dp

    ledger_ = Ledger.from_events([SubsampledGaussian(0.1, number(1), number(1))])
    (component,) = ledger_.components()
    # One coin for 50 Gaussians: dp-accounting forgets the 50 if z is not a float.
    nested = dp.SelfComposedDpEvent(dp.GaussianDpEvent(component.noise_multiplier), 50)
    event = dp.PoissonSampledDpEvent(component.sampling_rate, nested)
    theirs = dp.rdp.RdpAccountant(list(range(2, 65))).compose(event).get_epsilon(1e-3)
    assert theirs == pytest.approx(50.916, abs=1e-2)  # P10
    ours = epsilon(RDP_INTEGER, 0.1, component.noise_multiplier / 50**0.5, 1, 1e-3)
    assert ours == pytest.approx(50.916, abs=1e-2)
    for accountant in (MOMENTS, RDP_INTEGER, PLD):
        plain = epsilon(accountant, 0.1, 1.0, 50, 1e-3)
        assert epsilon(accountant, 0.1, number(1), 50, 1e-3) == plain


@pytest.mark.parametrize(
    ("agents", "regions", "q", "z", "rounds", "schedule", "paper", "exact"),
    [
        (29, 4, 0.35, 1, 60, WeightSchedule(hold=10, decay=30), 10.38, 6.20),
        (29, 4, 0.35, 2, 60, WeightSchedule(hold=10, decay=30), 3.23, 2.00),
        (29, 4, 0.10, 1, 60, WeightSchedule(hold=10, decay=30), 2.01, 1.19),
        (50, 4, 0.35, 1, 60, WeightSchedule(hold=10, decay=30), 11.32, 6.87),
        (200, 2, 0.25, 1, 40, WeightSchedule(), 7.05, 6.46),
    ],
)
def test_exact_accounting(
    agents: int, regions: int, q: float, z: float, rounds: int, schedule: WeightSchedule,
    paper: float, exact: float,
) -> None:  # fmt: skip
    m = SubsampledGaussianMechanism(agents, 100, regions, 22.0, q, z, schedule)
    spent = Ledger.from_events(m.cost(t) for t in range(rounds))
    delta = default_delta(agents)
    assert privacy_loss(spent, delta, PLD).epsilon == pytest.approx(paper, abs=0.006)
    result = privacy_loss(spent, delta, PLD, "exact")
    assert result.epsilon == pytest.approx(exact, abs=0.006)
    assert result.accounting == "exact"
    assert len(spent.components("exact")) < 15  # rounds that hardly differ share a key


rates = st.sampled_from([0.02, 0.1, 0.3, 0.7, 1.0])
multipliers = st.sampled_from([0.6, 1.0, 2.0, 5.0])
counts = st.sampled_from([1, 8, 40])
deltas = st.sampled_from([1e-6, 1e-3, 0.02])


@pytest.mark.parametrize("accountant", [MOMENTS, RDP, PLD], ids=lambda a: a.name)
@given(q=rates, z=multipliers, releases=counts, delta=deltas)
@settings(max_examples=8, deadline=None)
def test_epsilon_is_monotone(
    accountant: Accountant, q: float, z: float, releases: int, delta: float
) -> None:
    base = epsilon(accountant, q, z, releases, delta)
    assert base >= 0
    slack = 1e-8
    assert epsilon(accountant, q, z, releases + 5, delta) >= base - slack
    assert epsilon(accountant, q, z, releases, delta / 10) >= base - slack
    for larger in (0.3, 1.0):
        if larger > q:
            # A grid's rounding (about 1e-3) may hide a difference, but never reverse it.
            assert epsilon(accountant, larger, z, releases, delta) >= base * (1 - 1e-3)
    for noisier in (2.0, 5.0):
        if noisier > z:
            assert epsilon(accountant, q, noisier, releases, delta) <= base * (1 + 1e-3) + slack


@given(q=rates, z=multipliers, releases=counts, delta=deltas)
@settings(max_examples=15, deadline=None)
def test_accountants_are_ordered(q: float, z: float, releases: int, delta: float) -> None:
    old, rdp, pld = (epsilon(a, q, z, releases, delta) for a in (MOMENTS, RDP, PLD))
    assert old >= rdp - 1e-9
    assert rdp >= pld


@given(
    q=st.floats(-6, 0).map(lambda x: 10**x),
    z=st.floats(-2, 2).map(lambda x: 10**x),
    releases=st.floats(0, 4).map(lambda x: round(10**x)),
    delta=st.floats(-200, -0.1).map(lambda x: 10**x) | st.floats(-15, -1).map(lambda x: 10**x),
)
@example(q=1e-4, z=1.0, releases=10, delta=1e-81)  # the best order is between two steep ones
@example(q=1e-4, z=1.0, releases=10, delta=1e-160)
@example(q=10**-1.21875, z=10**0.5, releases=100, delta=1e-154)  # nothing to compose
@example(q=3.665e-4, z=0.01, releases=1, delta=1e-20)  # losses of one sign end at -ln(1 - q)
@settings(max_examples=40, deadline=None)
def test_no_bound_is_smaller_than_pld(q: float, z: float, releases: int, delta: float) -> None:
    pld = epsilon(PLD, q, z, releases, delta)
    assert pld <= epsilon(MOMENTS, q, z, releases, delta)
    assert pld <= epsilon(RDP, q, z, releases, delta)


@pytest.mark.parametrize(
    ("q", "z", "releases", "delta", "rdp", "pld"),
    [  # long runs and tiny deltas; little noise, where the integer orders give 1590 and 2051
        (0.2, 1.0, 1023, 1e-13, 96.55, 90.87),
        (0.3, 0.5, 100, 1e-15, 159.1, 140.0),
        (0.01, 0.2, 100, 1e-5, 88.0, 75.1),
        (0.01, 0.3, 1000, 1e-5, 79.4, 69.8),
    ],
)
def test_pld_where_it_was_above_rdp(
    q: float, z: float, releases: int, delta: float, rdp: float, pld: float
) -> None:
    assert epsilon(RDP, q, z, releases, delta) == pytest.approx(rdp, rel=1e-3)
    assert epsilon(PLD, q, z, releases, delta) == pytest.approx(pld, abs=0.05)


def test_a_loss_says_how_it_was_obtained() -> None:
    def source(accountant: Accountant, q: float, z: float, releases: int, delta: float) -> str:
        return privacy_loss(ledger(q, z, releases), delta, accountant).source

    assert source(PLD, 0.2, 1.0, 3, 1e-5) == "composition"
    assert source(PLD, 1.0, 1.0, 3, 1e-5) == "closed form"
    assert source(PLD, 0.25, 1.0, 10**9, 1e-5) == "Renyi divergences"  # rounding: no grid is good
    assert source(RDP_FEW, 0.2, 1.0, 3, 1e-5) == "Renyi divergences"
    assert source(MOMENTS, 0.2, 1.0, 3, 1e-5) == "Renyi divergences"
    assert source(PLD, 0.2, 0.0, 3, 1e-5) == "no noise"
    assert source(PLD, 0.0, 0.0, 3, 1e-5) == "no release"


def test_a_process_asks_every_question_once() -> None:
    asked: list[float] = []

    class Counting(LocalAccountant):
        def bound(self, components: tuple[Component, ...], delta: float) -> Bound:
            asked.append(delta)
            return super().bound(components, delta)

    accountant = Counting()
    events = [SubsampledGaussian(0.1, z, 2 * z) for z in (1.0, 2.0)]
    for _ in range(3):  # three seeds
        for n in (1, 2):
            privacy_loss(Ledger.from_events(events[:n]), 1e-3, accountant)
            privacy_loss(Ledger.from_events(events[:n]), 1e-5, accountant)
    privacy_loss(Ledger.from_events(events), 1e-3, accountant, "exact")
    assert len(asked) == 5
    assert make_accountant("pld") is make_accountant("pld")


@pytest.mark.parametrize(("q", "z"), [(0.01, 30.0), (0.001, 20.0), (0.1, 100.0), (0.01, 5.0)])
def test_loss_distributions_stay_tight_for_small_losses(q: float, z: float) -> None:
    assert epsilon(PLD, q, z, 1000, 1e-5) < epsilon(RDP, q, z, 1000, 1e-5)


@pytest.mark.parametrize("name", ["moments", "rdp", "pld"])
def test_asking_after_every_round_changes_nothing(name: Any) -> None:
    m = SubsampledGaussianMechanism(29, 10, 4, 1.0, 0.3, 1.2, WeightSchedule(hold=2, decay=5))
    used = make_accountant(name)
    spent, seen = Ledger(), []
    for t in range(8):  # hold, fade, and equal weights
        spent = spent.charge(m.cost(t))
        seen.append(privacy_loss(spent, 1e-3, used, "exact").epsilon)
        privacy_loss(spent, 1e-3, used)  # another question in between
    at_once = Ledger.from_events(m.cost(t) for t in range(8))
    assert seen == sorted(seen)
    assert privacy_loss(at_once, 1e-3, make_accountant(name), "exact").epsilon == seen[-1]
    assert privacy_loss(at_once, 1e-3, used, "exact").epsilon == seen[-1]


@pytest.mark.parametrize("n", [1, 2, 7, 8, 45])
def test_repeated_releases_agree_with_dp_accounting(n: int) -> None:
    import dp_accounting as dp

    event = dp.PoissonSampledDpEvent(0.2, dp.GaussianDpEvent(1.1))
    pld = dp.pld.PLDAccountant(value_discretization_interval=1e-3).compose(event, n)
    assert epsilon(PLD, 0.2, 1.1, n, 1e-4) == pytest.approx(pld.get_epsilon(1e-4), rel=1e-6)
    rdp = dp.rdp.RdpAccountant(MOMENT_ORDERS).compose(event, n)
    assert epsilon(RDP_INTEGER, 0.2, 1.1, n, 1e-4) == pytest.approx(rdp.get_epsilon(1e-4), rel=1e-9)


@pytest.mark.parametrize("name", ["moments", "rdp", "pld"])
def test_edges(name: Any) -> None:
    accountant = make_accountant(name)
    assert epsilon(accountant, 0.1, 1, 0, 1e-3) == 0
    assert epsilon(accountant, 0, 1, 10, 1e-3) == 0
    assert epsilon(accountant, 0, 0, 10, 1e-3) == 0
    assert epsilon(accountant, 0.1, 0, 1, 1e-3) == math.inf
    assert epsilon(accountant, 0.1, 1e-200, 1, 1e-3) == math.inf
    assert 1 < epsilon(accountant, 0.1, 1, 5, 1e-40) < math.inf
    huge = epsilon(accountant, 0.5, 0.001, 40, 1e-3)  # fast, and without gigabytes of memory
    assert 1e6 < huge < math.inf
    for delta in (0, 1, -0.1, math.nan):
        with pytest.raises(ConfigError, match=r"^delta: expected"):
            epsilon(accountant, 0.1, 1, 1, delta)


def test_a_loss_says_what_it_is() -> None:
    assert privacy_loss(Ledger(), 1e-5, PLD) == PrivacyLoss(
        epsilon=0.0,
        delta=1e-5,
        accountant="pld",
        accounting="paper",
        source="no release",
        neighbouring_relation="zero-out (add-or-remove numbers)",
        sampling="Poisson",
    )


def test_unknown_accountant_and_roster() -> None:
    with pytest.raises(ConfigError, match="did you mean 'rdp'"):
        make_accountant("rdpp")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^agents"):
        default_delta(1)


def test_absl_is_left_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    from absl import logging

    before = logging.get_verbosity()
    logging.set_verbosity(logging.INFO)
    try:
        epsilon(RdpAccountant(), 0.37, 1.0, 1, 1e-3)  # orders near 1 do not converge
        assert logging.get_verbosity() == logging.INFO
    finally:
        logging.set_verbosity(before)
    assert "converge" not in capfd.readouterr().err


@pytest.mark.parametrize("accounting", ["paper", "exact"])
def test_budget_refuses_the_release_that_would_exceed_it(accounting: Any) -> None:
    m = SubsampledGaussianMechanism(40, 10, 4, 1.0, 0.2, 1.0, WeightSchedule(hold=3, decay=3))
    budget = Budget(2.0, 1e-3, PldAccountant(), accounting)
    spent, t = Ledger(), 0
    while budget.allows(spent, m.cost(t)):
        spent, t = spent.charge(m.cost(t)), t + 1
    assert 0 < t < 60
    assert privacy_loss(spent, 1e-3, PLD, accounting).epsilon <= 2.0
    assert privacy_loss(spent.charge(m.cost(t)), 1e-3, PLD, accounting).epsilon > 2.0
    assert spent.releases == t  # refusing did not charge


@pytest.mark.parametrize("limit", [3.0, 3.05, 100.0])
def test_a_budget_checks_long_runs_of_equal_releases_together(limit: float) -> None:
    asked: list[int] = []

    class Counting(LocalAccountant):
        def bound(self, components: tuple[Component, ...], delta: float) -> Bound:
            asked.append(sum(c.releases for c in components))
            return Bound(asked[-1] / 100, "composition")

    budget, event, spent = Budget(limit, 1e-3, Counting()), SubsampledGaussian(0.1, 1, 1), Ledger()
    while spent.releases < 1000 and budget.allows(spent, event):
        spent = spent.charge(event)
    assert spent.releases == min(1000, round(100 * limit))  # exactly as if each was checked
    assert len(asked) < 64 + 1000 / 64 + 64 + 10


def test_exact_accounting_affords_more_rounds() -> None:
    m = SubsampledGaussianMechanism(40, 10, 4, 1.0, 0.2, 1.0)
    spent = Ledger.from_events(m.cost(t) for t in range(8))
    limit = privacy_loss(spent, 1e-3, PLD).epsilon * 0.9
    assert not Budget(limit, 1e-3, PLD, "paper").allows(spent, m.cost(8))
    assert Budget(limit, 1e-3, PLD, "exact").allows(spent, m.cost(8))


@pytest.mark.parametrize("values", [(0.0, 1e-3), (math.nan, 1e-3), (math.inf, 1e-3)])
def test_budget_needs_an_epsilon(values: tuple[float, float]) -> None:
    with pytest.raises(ConfigError, match=r"^epsilon: expected"):
        Budget(*values, accountant=PLD)


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_budget_needs_a_delta(delta: float) -> None:
    with pytest.raises(ConfigError, match=r"^delta: expected"):
        Budget(1.0, delta, PLD)


@pytest.mark.parametrize(
    "accountant", [MomentsAccountant(), RdpAccountant(), RDP_INTEGER, PldAccountant()]
)
def test_an_accountant_goes_to_another_process(accountant: Accountant) -> None:
    budget = Budget(4.0, 1e-5, accountant)
    before = epsilon(accountant, 0.25, 1.0, 3, 1e-5)  # the caches are not empty
    arrived = pickle.loads(pickle.dumps(budget)).accountant
    assert type(arrived) is type(accountant)
    assert epsilon(arrived, 0.25, 1.0, 3, 1e-5) == before


@dataclass(frozen=True)
class LocalRelease:
    """An event of another kind, paid by one agent."""

    agent: int
    noise_multiplier: float
    kind: ClassVar[str] = "local-release"

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}


class LocalAccountant:
    """Epsilon is the sum of 1 / z."""

    name: Literal["pld"] = "pld"

    def supports(self, event: PrivacyEvent) -> bool:
        return isinstance(event, (LocalRelease, SubsampledGaussian))

    def bound(self, components: tuple[Component, ...], delta: float) -> Bound:
        return Bound(sum(c.releases / c.noise_multiplier for c in components), "closed form")


@pytest.mark.parametrize("name", ["moments", "rdp", "pld"])
def test_an_event_that_an_accountant_does_not_support_is_named(name: AccountantName) -> None:
    accountant = make_accountant(name)
    assert accountant.supports(SubsampledGaussian(0.1, 1, 1))
    assert not accountant.supports(LocalRelease(3, 2.0))
    spent = Ledger.from_events([SubsampledGaussian(0.1, 1, 1), LocalRelease(3, 2.0)])
    with pytest.raises(ConfigError, match=rf"{name} cannot account for 'local-release'.*agent=3"):
        privacy_loss(spent, 1e-3, accountant)
    with pytest.raises(ConfigError, match="cannot account for 'local-release'"):
        Budget(1.0, 1e-3, accountant).allows(Ledger(), LocalRelease(3, 2.0))


def test_the_loss_is_that_of_the_agent_who_pays_most() -> None:
    class Own(SubsampledGaussian):
        """Paid by agent 1 alone."""

        agent: ClassVar[Any] = 1

    shared, own = SubsampledGaussian(0.1, 2, 2), Own(0.1, 1, 1)
    spent = Ledger.from_events([shared, own])
    assert privacy_loss(spent, 1e-3, LocalAccountant()).epsilon == 1.5
    assert privacy_loss(spent.of(None), 1e-3, LocalAccountant()).epsilon == 0.5


def renyi_divergence(q: float, z: float, order: int) -> float:
    """Return the divergence of one release; all terms are positive, and nothing cancels."""
    terms = (
        math.comb(order, i) * (1 - q) ** (order - i) * q**i * math.expm1(i * (i - 1) / (2 * z**2))
        for i in range(2, order + 1)
    )
    return math.log1p(math.fsum(terms)) / (order - 1)


@pytest.mark.parametrize("q", [1e-6, 1e-4, 0.01, 0.3])
@pytest.mark.parametrize("z", [0.9, 10.0, 1000.0])
def test_renyi_divergences_are_never_too_small(q: float, z: float) -> None:
    # As good as 0 for dp-accounting; multiplied by a million releases, they are not.
    orders = (2, 3, 8, 32)
    accountant = RdpAccountant(tuple(float(order) for order in orders))
    found = accountant._divergences(q, z)
    for order, divergence in zip(orders, found, strict=True):
        exact = renyi_divergence(q, z, order)
        assert exact <= divergence <= exact * (1 + 1e-9) + 2e-12


def test_rdp_is_an_upper_bound_for_a_million_tiny_releases() -> None:
    import dp_accounting as dp

    q, z, releases, delta = 1e-6, 10.0, 10**6, 1e-5
    # The sum of so many small losses is normal: a Gaussian release of this multiplier.
    limit = dp.get_epsilon_gaussian(1 / (q * math.sqrt(releases * math.expm1(z**-2))), delta)
    assert limit == pytest.approx(9.06e-5, rel=1e-3)
    assert epsilon(PLD, q, z, releases, delta) == pytest.approx(limit, rel=1e-3)
    assert epsilon(RDP, q, z, releases, delta) >= limit


# N, T, m, z; RDP (Wang et al., Theorem 27) and PLD (C_q) at N^-1.1, of the reference's table.
FIXED_SIZE = [
    (29, 60, 10, 1.0, 160.6, 47.17),
    (29, 60, 10, 2.0, 32.2, 11.73),
    (29, 60, 10, 4.0, 9.92, 3.51),
    (29, 60, 2, 1.0, 27.4, 8.43),
    (200, 40, 50, 1.0, 86.7, 30.55),
]


def fixed_size(agents: int, size: int, z: float, releases: int) -> Ledger:
    return Ledger(((FixedSizeGaussian(agents, size, z, z), releases),))


class TestFixedSize:
    @pytest.mark.parametrize(("agents", "releases", "size", "z", "rdp", "pld"), FIXED_SIZE)
    def test_losses_of_the_reference(
        self, agents: int, releases: int, size: int, z: float, rdp: float, pld: float
    ) -> None:
        ledger, delta = fixed_size(agents, size, z, releases), default_delta(agents)
        found = privacy_loss(ledger, delta, RDP)
        assert found.epsilon == pytest.approx(rdp, abs=0.05)
        loss = privacy_loss(ledger, delta, PLD)
        assert loss.epsilon == pytest.approx(pld, abs=5e-3)
        assert loss.source == "composition"
        for one in (found, loss):
            assert (one.neighbouring_relation, one.sampling) == ("replace-one", "fixed-size")
        # Larger than with Poisson sampling at the same rate, against the paper's Fig. 11.
        assert loss.epsilon > 2 * epsilon(PLD, size / agents, z, releases, delta)

    @pytest.mark.parametrize("z", [0.3, 1.0, 10.0, 50.0])
    @pytest.mark.parametrize("q", [0.05, 0.4])
    def test_divergences_are_dp_accountings(self, q: float, z: float) -> None:
        from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant as Theirs

        orders = [2.0, 3.0, 4.0, 9.0, 20.0]
        event = dp.SampledWithoutReplacementDpEvent(100, round(100 * q), dp.GaussianDpEvent(z))
        theirs = Theirs(orders, dp.NeighboringRelation.REPLACE_ONE).compose(event)
        ours = fixed_size_divergences(q, z)[[MOMENT_ORDERS.index(order) for order in orders]]
        np.testing.assert_allclose(ours, theirs._rdp, rtol=1e-6)

    @pytest.mark.parametrize("z", [1e-6, 1e-3, 0.1, 3.0, 1e3, 1e9])
    def test_differences_are_moments_of_the_ratio(self, z: float) -> None:
        # E[(p/q - 1)^2] = exp(1/z^2) - 1; and with s = 1/z^2 small, E[(p/q - 1)^l] is that of
        # x / z with a normal x: (l - 1)!! s^(l/2).
        zero, two, four, six = even_differences(z, 6)
        assert zero == 0
        s = z**-2
        assert two == pytest.approx(s if s > 700 else math.log(math.expm1(s)), rel=1e-12)
        if z >= 1e3:
            assert four == pytest.approx(math.log(3 * s**2), abs=1e-4)
            assert six == pytest.approx(math.log(15 * s**3), abs=1e-4)
        if z <= 0.1:  # the last term is all
            assert (four, six) == (pytest.approx(6 * s, rel=1e-9), pytest.approx(15 * s, rel=1e-9))

    def test_everybody_in_the_sample_is_a_gaussian_mechanism(self) -> None:
        loss = privacy_loss(fixed_size(7, 7, 3.0, 4), 1e-5, PLD)
        assert loss.source == "closed form"
        assert loss.epsilon == pytest.approx(dp.get_epsilon_gaussian(3.0 / 2 / 2, 1e-5), rel=1e-9)

    @given(
        size=st.integers(1, 20),
        z=st.sampled_from([0.4, 1.0, 3.0, 20.0]),
        releases=st.integers(1, 100),
        delta=st.sampled_from([0.03, 1e-6]),
    )
    @settings(max_examples=10, deadline=None)
    def test_properties(self, size: int, z: float, releases: int, delta: float) -> None:
        def loss(accountant: Accountant, size: int, z: float, releases: int) -> float:
            return privacy_loss(fixed_size(20, size, z, releases), delta, accountant).epsilon

        found = loss(PLD, size, z, releases)
        assert found <= loss(RDP, size, z, releases) * (1 + 1e-9)
        assert found >= loss(PLD, size, 2 * z, releases) * (1 - 1e-5)
        assert found <= loss(PLD, size, z, releases + 1) * (1 + 1e-5)
        if size < 20:
            assert found <= loss(PLD, size + 1, z, releases) * (1 + 1e-5)
        # Replacing may also be removing: no less than with the agent's vectors replaced by zeros.
        assert found >= epsilon(PLD, size / 20, z, releases, delta) * (1 - 1e-5)

    def test_moments_are_not_defined_for_it(self) -> None:
        with pytest.raises(ConfigError, match="moments cannot account for 'fixed-size-gaussian'"):
            privacy_loss(fixed_size(29, 10, 1.0, 60), 0.1, MOMENTS)

    def test_two_samplings_have_no_common_loss(self) -> None:
        mixed = ledger(0.3, 1.0, 2).charge(FixedSizeGaussian(29, 10, 1.0, 1.0))
        for accountant in (PLD, RDP):
            with pytest.raises(ConfigError, match="protect different neighbours"):
                privacy_loss(mixed, 1e-3, accountant)

    def test_reports_say_what_holds(self) -> None:
        found = epsilons([FixedSizeGaussian(29, 10, 1.0, 2.0)] * 60, default_delta(29))
        assert (found["neighbouring_relation"], found["sampling"]) == ("replace-one", "fixed-size")
        assert "moments" not in found
        assert found["pld"] == pytest.approx(47.17, abs=5e-3)
        assert found["pld_exact_multipliers"] == pytest.approx(11.73, abs=5e-3)
