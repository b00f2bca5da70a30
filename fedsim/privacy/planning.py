"""Which ways of sharing a privacy target leaves a signal in, before anything is run.

A plan is a number of releases, a sampling rate and the smallest noise with which all of them
together meet the target. Its expected signal to noise follows from assumptions about the agents'
vectors (:class:`Vectors`): their norm r, and their agreement c, the mean of r^2 cos over pairs of
agents in units of r^2. With the clipping norm S = r sqrt(P), which clips nothing, and equal weights
1/N in every region, the sum of a release has, per region,

    E |signal|^2 = r^2 (1 / (N q) + (1 - 1/N) c),    E |noise|^2 = M P (z r / (N q))^2

The first term of the signal is what single agents bring in, and falls with the number of agents;
c r^2 is what they share. So a release that helps has a large sqrt(c) r over the noise. Both ratios
are reported: that of the whole signal, which a run records as ``signal_to_noise``, and that of what
is shared, which plans are sorted by. S does not matter to either: the noise grows with it.

A posterior sample is a mean plus about standard normal weights, one per feature: its norm is
sqrt(M + r^2), and two agents' samples agree by c r^2 / (M + r^2) only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fedsim.errors import require
from fedsim.privacy.accountants import Accountant, PrivacyLoss
from fedsim.privacy.calibration import calibrate, constant_loss

Kind = Literal["mean", "sample"]

SAMPLING_RATES = (0.1, 0.25, 0.5, 1.0)
"""q that are tried where every round has a release; the best for each message is kept."""

REGIONS = (1, 2)
"""P that are tried there."""

FEW_RELEASES = (1, 3, 5)
"""Numbers of releases of ``dp-prior``: after rounds 0, 1, 2, 4, 8."""

_DIGITS = 5  # of a noise multiplier, rounded up


@dataclass(frozen=True, slots=True)
class Vectors:
    """What is assumed of the agents' vectors.

    Attributes:
        features: M, at least 1.
        norm: r, of a posterior mean, above 0.
        agreement: c, of posterior means, in [0, 1]: 1 for equal ones, 0 for unrelated ones.

    Raises:
        ConfigError: if a value is outside its range.
    """

    features: int = 100
    norm: float = 2.0
    agreement: float = 0.5

    def __post_init__(self) -> None:
        require(self.features >= 1, "features", "at least 1", self.features)
        require(0 < self.norm < math.inf, "norm", "a finite number above 0", self.norm)
        require(0 <= self.agreement <= 1, "agreement", "0 to 1", self.agreement)

    def of(self, kind: Kind) -> tuple[float, float]:
        """Return norm and agreement of messages that are posterior means, or samples."""
        squared = self.norm**2
        if kind == "mean":
            return self.norm, self.agreement
        whole = self.features + squared
        return math.sqrt(whole), self.agreement * squared / whole


@dataclass(frozen=True, slots=True)
class Plan:
    """A way of sharing that meets a privacy target.

    Attributes:
        method: the method's name.
        kind: what agents send.
        features: M.
        releases: their number.
        sampling_rate: q.
        noise_multiplier: z.
        clipping_norm: S.
        regions: P.
        signal_to_noise: expected of a release, the root of the ratio of expected squares.
        shared_to_noise: the same of what agents share.
        loss: the privacy loss of all releases.
    """

    method: Literal["dp-fts-de", "dp-prior"]
    kind: Kind
    features: int
    releases: int
    sampling_rate: float
    noise_multiplier: float
    clipping_norm: float
    regions: int
    signal_to_noise: float
    shared_to_noise: float
    loss: PrivacyLoss

    def setting(self) -> dict[str, object]:
        """Return the section ``method`` of a configuration."""
        dp = {
            "sampling_rate": self.sampling_rate,
            "noise_multiplier": self.noise_multiplier,
            "clipping_norm": self.clipping_norm,
        }
        if self.method == "dp-prior":
            found = {"releases": self.releases, "message": {"features": self.features}}
            return {"name": self.method, **found, "dp": dp}
        return {
            "name": self.method,
            "subregions": self.regions,
            "message": {"kind": self.kind, "features": self.features},
            "weights": {"scheme": "uniform"},
            "dp": dp,
        }


def expected_ratios(
    agents: int,
    features: int,
    regions: int,
    sampling_rate: float,
    noise_multiplier: float,
    agreement: float,
) -> tuple[float, float]:
    """Return expected signal to noise of a release: of the whole signal, and of what is shared.

    Args:
        agents: N, at least 1.
        features: M, at least 1.
        regions: P, at least 1, with equal weights.
        sampling_rate: q, in (0, 1].
        noise_multiplier: z, above 0.
        agreement: c, of vectors of one norm, which clipping does not change.
    """
    N, q = agents, sampling_rate
    noise = noise_multiplier * math.sqrt(features * regions) / (N * q)  # over |vector|
    whole = 1 / (N * q) + (1 - 1 / N) * agreement
    return math.sqrt(whole) / noise, math.sqrt(agreement) / noise


def plans(
    agents: int,
    rounds: int,
    epsilon: float,
    delta: float,
    accountant: Accountant,
    vectors: Vectors = Vectors(),
) -> list[Plan]:
    """Return plans that meet a privacy target, those with the most shared signal first.

    Args:
        agents: N, at least 2.
        rounds: the number of queries T, at least 1.
        epsilon: the target, above 0.
        delta: in (0, 1).
        accountant: measures the loss; Poisson sampling, zero-out neighbours.
        vectors: what is assumed of the agents' vectors.

    Raises:
        ConfigError: if a value is outside its range, or no noise meets the target.
    """
    require(agents >= 2, "agents", "at least 2", agents)
    require(rounds >= 1, "rounds", "at least 1", rounds)
    noises = {q: _noise(epsilon, delta, accountant, q, rounds) for q in SAMPLING_RATES}
    found = []
    for kind in ("mean", "sample"):
        for regions in REGIONS:
            if regions <= agents:
                every = (
                    _plan("dp-fts-de", kind, regions, rounds, q, *noises[q], agents, vectors)
                    for q in SAMPLING_RATES
                )
                found.append(max(every, key=lambda plan: plan.shared_to_noise))
    for releases in few_releases(rounds):
        noise = _noise(epsilon, delta, accountant, 1.0, releases)
        found.append(_plan("dp-prior", "mean", 1, releases, 1.0, *noise, agents, vectors))
    return sorted(found, key=lambda plan: -plan.shared_to_noise)


def few_releases(rounds: int) -> Iterator[int]:
    """Return those of :data:`FEW_RELEASES` that are all before the last of T queries."""
    return (n for n in FEW_RELEASES if n == 1 or 2 ** (n - 2) < rounds)


def _plan(
    method: Literal["dp-fts-de", "dp-prior"],
    kind: Kind,
    regions: int,
    releases: int,
    q: float,
    z: float,
    loss: PrivacyLoss,
    agents: int,
    vectors: Vectors,
) -> Plan:
    norm, agreement = vectors.of(kind)
    ratios = expected_ratios(agents, vectors.features, regions, q, z, agreement)
    S = _rounded_up(norm * math.sqrt(regions), 3)
    return Plan(method, kind, vectors.features, releases, q, z, S, regions, *ratios, loss)


def _noise(
    epsilon: float, delta: float, accountant: Accountant, q: float, releases: int
) -> tuple[float, PrivacyLoss]:
    """Return about the least z that meets the target, rounded up, and its loss."""
    found = calibrate(epsilon, delta, accountant, sampling_rate=q, rounds=releases)
    z = _rounded_up(found.noise_multiplier, _DIGITS)
    loss = constant_loss(q, z, releases, delta, accountant)
    while loss.epsilon > epsilon:  # where a grid gets coarser, epsilon rises a little
        z = _rounded_up(z * (1 + 10.0**-_DIGITS), _DIGITS)
        loss = constant_loss(q, z, releases, delta, accountant)
    return z, loss


def _rounded_up(value: float, digits: int) -> float:
    step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return float(f"{math.ceil(value / step - 1e-9) * step:.{digits}g}")
