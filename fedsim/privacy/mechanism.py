"""The server's average of the agents' vectors: subsampled and noised, or plain.

Dai, Low and Jaillet, "Differentially Private Federated Bayesian Optimization with Distributed
Exploration" (NeurIPS 2021), Algorithm 1, lines 5-12, and Sec. 3.3.

===========  =============================================================  =========
symbol       meaning                                                        shape
===========  =============================================================  =========
N, P, M      agents, sub-regions, length of an agent's vector
omega        the agents' vectors, clipped to norm C = S/sqrt(P)              (N, M)
phi          public weights, rows sum to 1                                   (P, N)
q, S, z      sampling rate, clipping norm, noise multiplier
m            size of a fixed-size sample, int(N q)
===========  =============================================================  =========

Deviations from the paper (and from its authors' code):

- The noise of region i is scaled by its own largest weight phi_max^(i) instead of the largest
  of all regions: if regions have different numbers of agents, this adds less noise at the same
  privacy loss, because in units of each block's noise an agent still counts at most 1/z.
- An empty sample releases noise alone (the authors release a random vector without noise).
- A missing, malformed or non-finite vector counts as a zero vector, with unchanged weights, noise
  and cost. The server clips, not the agents.
- ``sampling: fixed`` draws exactly m agents without replacement (App. B.2.4); m / N takes the place
  of q. This protects replace-one neighbours, and its epsilon is much larger, not smaller as the
  paper's Fig. 11 has it.
- The cost also includes the multiplier of the joint release, which is larger than z while agents
  count mostly in one region.

Guarantee: one agent's whole data set and all its messages are protected against anyone who sees
all broadcasts, whatever else they know, in the zero-out sense (the agent's vectors replaced by
zeros; with samples of fixed size, by any others). The server is trusted. Roster, weights, q, S, z
and P must be fixed without looking at the agents' data. Who was sampled, the sum without noise, and
the noise must stay secret; so nothing here counts, logs or reports them. Noise is drawn in double
precision, which leaks in principle (Mironov, CCS 2012); a deployment needs a discrete Gaussian.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedsim.errors import ConfigError, require
from fedsim.privacy.events import GaussianEvent, Sampling, gaussian_event, sample_size
from fedsim.privacy.weights import WeightSchedule, region_weights
from fedsim.protocol import Release, Replies, Respondents, State, Uncharged
from fedsim.rng import Randomness
from fedsim.space import Array

Mask = NDArray[np.bool_]

VECTOR = "vector"
"""Name of the agent's vector in a reply's payload, shape (M,)."""

VECTORS = "vectors"
"""Name of the regions' vectors in a release's payload, shape (P, M)."""


@dataclass(frozen=True)
class SubsampledGaussianMechanism:
    """The aggregator of DP-FTS-DE (Alg. 1, lines 5-12).

    1. Every vector is checked, and clipped to norm S/sqrt(P).
    2. Every agent on the roster enters the sum with probability q, independently; or m of them do.
    3. Region i gets the sum of (phi_n^(i)/q) omega_n, with constant denominators.
    4. Gaussian noise of standard deviation z phi_max^(i) S/q is added to every coordinate.

    Attributes:
        agents: N, the roster 0 .. N-1, at least 1.
        features: M, the length of an agent's vector, at least 1.
        regions: P, at least 1.
        clipping_norm: S, the bound on the norm of an agent's joint vector, above 0.
        sampling_rate: q, in (0, 1]; with fixed sampling, at least 1/N.
        noise_multiplier: z, above 0. For no privacy use :class:`WeightedAverage`.
        weights: how much an agent counts in each region, by release.
        noise_only: a control that replaces the agents' vectors by zeros; all else stays the same.
        sampling: ``poisson``, or ``fixed``: m = int(N q) agents in every release.

    Raises:
        ConfigError: if a setting is outside its range.
    """

    agents: int
    features: int
    regions: int
    clipping_norm: float
    sampling_rate: float
    noise_multiplier: float
    weights: WeightSchedule = field(default_factory=WeightSchedule)
    noise_only: bool = False
    sampling: Sampling = "poisson"

    def __post_init__(self) -> None:
        _check_sizes(self.agents, self.features, self.regions)
        if self.sampling not in ("poisson", "fixed"):
            raise ConfigError(f"sampling: expected poisson or fixed, got {self.sampling!r}")
        q, S = self.sampling_rate, self.clipping_norm
        require(0 < q <= 1, "sampling_rate", "a probability in (0, 1]", q)
        require(0 < S < math.inf, "clipping_norm", "a finite number above 0", S)
        if not 0 < self.noise_multiplier < math.inf:
            raise ConfigError(
                "noise_multiplier: expected a finite number above 0, "
                f"got {self.noise_multiplier}; to run without privacy, switch off the mechanism"
            )
        self._rate()  # checks that a fixed-size sample has an agent

    def cost(self, t: int) -> GaussianEvent:
        """Return the cost of release ``t``; a function of public settings only."""
        return gaussian_event(
            self.sampling,
            self.agents,
            self.sampling_rate,
            self.noise_multiplier,
            joint_multiplier(self._phi(t), self.noise_multiplier),
        )

    def noise_scale(self, t: int) -> Array:
        """Return the noise's standard deviation per region, shape (P,)."""
        scale = self.noise_multiplier * self.clipping_norm / self._rate()
        return np.asarray(scale * self._phi(t).max(axis=1))

    def aggregate(self, t: int, replies: Replies, fleet: Respondents, rng: Randomness) -> Release:
        """Return the joint vector of release ``t``.

        Args:
            t: the release, from 0.
            replies: each with payload ``{"vector": (M,)}``.
            fleet: not used.
            rng: gives the sample (``privacy-sampling``) and the noise (``privacy-noise``).

        Returns:
            Payload ``{"vectors": (P, M)}``, the cost, and for the experimenter
            ``signal_to_noise``: the norm of the sum without noise over the root of the expected
            squared norm of the noise.
        """
        vectors = clip(gather(replies, self.agents, self.features), self._vector_bound())
        sampled = self._sample(rng("privacy-sampling"))  # line 6
        signal = joint_sum(self._phi(t), vectors, sampled, self._rate())  # lines 7-10
        if self.noise_only:
            signal = np.zeros_like(signal)
        scale = self.noise_scale(t)
        noise = rng("privacy-noise").standard_normal(signal.shape) * scale[:, None]  # line 11
        expected_noise = math.sqrt(self.features) * float(np.linalg.norm(scale))
        return Release(
            payload={VECTORS: signal + noise},
            cost=self.cost(t),
            experimenter={"signal_to_noise": float(np.linalg.norm(signal)) / expected_noise},
        )

    def state(self) -> State:
        """Return an empty state: a release depends only on its round."""
        return {}

    def restore(self, state: State) -> None:
        """Do nothing; see :meth:`state`."""

    def _sample(self, generator: np.random.Generator) -> Mask:
        if self.sampling == "poisson":
            return np.asarray(generator.random(self.agents) < self.sampling_rate)
        size = sample_size(self.agents, self.sampling_rate)
        sampled = np.zeros(self.agents, dtype=bool)
        sampled[generator.choice(self.agents, size, replace=False)] = True
        return sampled

    def _rate(self) -> float:
        if self.sampling == "poisson":
            return self.sampling_rate
        return sample_size(self.agents, self.sampling_rate) / self.agents

    def _phi(self, t: int) -> Array:
        return region_weights(self.weights, t, self.agents, self.regions)

    def _vector_bound(self) -> float:
        return self.clipping_norm / math.sqrt(self.regions)


@dataclass(frozen=True)
class WeightedAverage:
    """FTS-DE without privacy: no sampling, no clipping, no noise.

    The weights are normalised over the agents that answered with finite vectors. If none did, there
    is no average, and the release is empty.

    Attributes:
        agents: N, the roster 0 .. N-1, at least 1.
        features: M, the length of an agent's vector, at least 1.
        regions: P, at least 1.
        weights: how much an agent counts in each region, by release.

    Raises:
        ConfigError: if a setting is outside its range.
    """

    agents: int
    features: int
    regions: int
    weights: WeightSchedule = field(default_factory=WeightSchedule)

    def __post_init__(self) -> None:
        _check_sizes(self.agents, self.features, self.regions)

    def cost(self, t: int) -> Uncharged:
        """Return ``NOT_PRIVATE``."""
        return Uncharged.NOT_PRIVATE

    def aggregate(self, t: int, replies: Replies, fleet: Respondents, rng: Randomness) -> Release:
        """Return payload ``{"vectors": (P, M)}``: each region's weighted average; None if empty."""
        vectors = gather(replies, self.agents, self.features)
        present = finite_rows(vectors)
        if not present.any():
            return Release(None)
        phi = region_weights(self.weights, t, self.agents, self.regions, present)
        return Release({VECTORS: phi @ np.where(present[:, None], vectors, 0.0)})

    def state(self) -> State:
        """Return an empty state: a release depends only on its round."""
        return {}

    def restore(self, state: State) -> None:
        """Do nothing; see :meth:`state`."""


def gather(replies: Replies, agents: int, features: int) -> Array:
    """Return the agents' vectors in agent order, shape (N, M).

    A row is NaN if the answer is missing or not an array of M real numbers.
    """
    vectors = np.full((agents, features), np.nan)
    answers = {reply.agent: reply for reply in replies if reply.status == "ok"}
    with np.errstate(over="ignore"):  # a wider type's huge value becomes infinite: not finite
        for agent in range(agents):
            vector = answers[agent].payload.get(VECTOR) if agent in answers else None
            if (
                isinstance(vector, np.ndarray)
                and vector.shape == (features,)
                and vector.dtype.kind in "fiu"
            ):
                vectors[agent] = vector
    return vectors


def clip(vectors: Array, bound: float) -> Array:
    """Return the rows of ``vectors`` scaled down to norm ``bound`` where they exceed it (line 9).

    Args:
        vectors: shape (N, M).
        bound: above 0.

    Returns:
        Shape (N, M); rows with non-finite values are zero. No row's norm, computed in float64,
        exceeds ``bound``.
    """
    clipped = np.where(finite_rows(vectors)[:, None], vectors, 0.0)
    exceeding = row_norms(clipped) > bound
    rows = clipped[exceeding]
    rows = rows / np.abs(rows).max(axis=1, keepdims=True)  # the factor below is then finite
    rows *= (bound / row_norms(rows))[:, None]
    rows[row_norms(rows) > bound] *= 1 - 1e-12  # rounding
    clipped[exceeding] = rows
    return clipped


def finite_rows(vectors: Array) -> Mask:
    """Return which rows hold finite numbers only, shape (N,)."""
    return np.asarray(np.isfinite(vectors).all(axis=1))


def row_norms(vectors: Array) -> Array:
    """Return the Euclidean norm of each row, shape (N,), for tiny and huge values too."""
    largest = np.abs(vectors).max(axis=1)
    scaled = vectors / np.where(largest > 0, largest, 1.0)[:, None]
    with np.errstate(over="ignore"):  # a norm beyond float64's range is infinite
        return np.asarray(largest * np.sqrt(np.einsum("nm,nm->n", scaled, scaled)))


def joint_sum(phi: Array, vectors: Array, sampled: Mask, sampling_rate: float) -> Array:
    """Return the regions' sums without noise (lines 7-10): private, must not be shown.

    Args:
        phi: weights, shape (P, N).
        vectors: clipped, shape (N, M).
        sampled: which agents enter the sum, shape (N,) of bool.
        sampling_rate: q or m / N, in (0, 1]; the divisor, for any sample size.

    Returns:
        Shape (P, M).
    """
    return np.asarray((phi * sampled / sampling_rate) @ vectors)


def joint_multiplier(phi: Array, noise_multiplier: float) -> float:
    """Return the noise multiplier of the joint release of all regions, at least z.

    In units of each region's noise, agent n moves the joint vector by at most
    sqrt(sum_i (phi_n^(i) / phi_max^(i))^2 / P) / z: 1/z when it counts fully in all regions,
    1/(z sqrt(P)) when it counts in one.

    Args:
        phi: weights, shape (P, N).
        noise_multiplier: z.

    Returns:
        z times a factor in [1, sqrt(P)], rounded down to four decimals.
    """
    relative = phi / phi.max(axis=1, keepdims=True)
    gain = math.sqrt(len(phi) / float((relative**2).sum(axis=0).max()))  # in [1, sqrt(P)]
    # Rounded down, the safe direction: rounds that hardly differ then share one event.
    return float(noise_multiplier) * max(1.0, math.floor(1e4 * gain) / 1e4)


def _check_sizes(agents: int, features: int, regions: int) -> None:
    for name, size in (("agents", agents), ("features", features), ("regions", regions)):
        require(size >= 1, name, "at least 1", size)
