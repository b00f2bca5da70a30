"""What many histories say together about the scale of the inputs.

An agent's history says how much likelier its outputs are with each warp
(:mod:`fedsim.surrogates.warping`) than without one. Of few observations that is little, but agents
that tune the same parameters mostly need the same scales. So they add their log likelihoods up.
To be released with noise, they are compressed to a few numbers first.

=========  ==================================================================  ==============
symbol     meaning                                                             shape
=========  ==================================================================  ==============
T(a)       log likelihood with the warp of strengths a, but for a constant
nodes      the strengths a that are compared                                   J of them
F          orthonormal polynomials of a on the nodes, without the constant     (J, K)
v          an agent's vector: v_k = mean over the nodes of F_k(a) T(a)         (K,)
m          the sum of N agents' vectors, perhaps with noise                    (K,)
s          standard deviation of each number of m if no agent knew anything
G(a)       gain over no warp that follows from m: m . (F(a) - F(0))
L(a)       the same, after what may be noise is taken off
=========  ==================================================================  ==============

Nodes are 0, 1/4, 1/2, 3/4 and 1 on every axis. (The upper end is rarely the one that matters, and
the likelihood often falls steeply there; it would take much of a vector whose norm is bounded.
Agents that learn a warp of their own may still choose it.) In one and two dimensions all
combinations are nodes, and polynomials are of degree 2 in all axes together: a quadratic function
of a is kept exactly. In more dimensions there would be too many; each axis has polynomials of its
own, for a warp of this axis alone: 2 D numbers.

The polynomials' mean square over the nodes is 1, so that |v| is the root mean square over the
nodes of what is kept of T(a) minus its mean: its unit is that of a log likelihood, whatever D.

The deviation of G(a) is s |F(a) - F(0)|. L(a) is G(a) less one deviation, but not below 0, where
G(a) > 0, and G(a) where it is not. (Of m that are noise alone in two dimensions, 4 of 10 have a
common warp then, and 8 if nothing is taken off. To take off two deviations was worse for agents
that need a warp.) Besides noise, s is what chance makes: vectors of norm S with random directions
have sums whose numbers have the deviation S sqrt(N / K).

In the prior of an agent's own warp, only gains above 0 count. First observations often do not show
a small corner, and that must not be held against those that show it later.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.space import Array, Space
from fedsim.surrogates.kernels import Family
from fedsim.surrogates.scaling import spread
from fedsim.surrogates.trend import Trend
from fedsim.surrogates.warping import (
    ALL_TOGETHER,
    STRENGTHS,
    Doubt,
    Warp,
    WarpCosts,
    doubt_of,
    identity,
    scaled_axes,
)

SHARED_STRENGTHS = tuple(sorted(a for a in STRENGTHS if a >= 0.0))
"""The nodes of one axis."""


@dataclass(frozen=True, slots=True)
class SharedScales:
    """What is known about an agent's warp from all agents; hashable.

    Attributes:
        dimension: D.
        groups: axes whose gains are known together.
        gains: L at each group's nodes, in the order of ``itertools.product``.
        agents: N, whose log likelihoods these are the sum of.
    """

    dimension: int
    groups: tuple[tuple[int, ...], ...]
    gains: tuple[tuple[float, ...], ...]
    agents: int

    def gain(self, warp: Warp) -> float:
        """Return the sum of the groups' L; a strength below 0 counts as 0: nothing is known."""
        return sum(self._each(warp))

    def _each(self, warp: Warp) -> Iterator[float]:
        for axes, gains in zip(self.groups, self.gains, strict=True):
            place = 0
            for d in axes:
                node = SHARED_STRENGTHS.index(max(warp.strengths[d], 0.0))
                place = place * len(SHARED_STRENGTHS) + node
            yield gains[place]

    def common(self) -> Warp:
        """Return the likeliest warp of all agents, if they have the same one."""
        warp = identity(self.dimension)
        for axes, gains in zip(self.groups, self.gains, strict=True):
            warps = [warp.changed(node) for node in _nodes(axes)]
            costs = [doubt_of(one) - gain for one, gain in zip(warps, gains, strict=True)]
            warp = warps[costs.index(min(costs))]
        return warp

    def doubt(self, weight: float) -> Doubt:
        """Return the prior of an agent's own warp: gains above 0 make it more probable.

        Args:
            weight: how many observers of one's own warp the average of all agents counts as.
        """
        share = weight / self.agents
        return lambda warp: (
            doubt_of(warp) - share * sum(max(gain, 0.0) for gain in self._each(warp))
        )


class ScaleVectors:
    """The agents' vectors, and what follows from their sum.

    Args:
        space: the search space.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        axes = scaled_axes(space)
        together = len(axes) <= ALL_TOGETHER
        groups = [tuple(axes)] if together else [(d,) for d in axes]
        self._groups = tuple(groups) if axes else ()
        self._bases = tuple(_polynomials(len(group)) for group in self._groups)

    @property
    def size(self) -> int:
        """K; 0 if no parameter is a number."""
        return sum(basis.shape[1] for basis in self._bases)

    def vector(
        self, family: Family, ard: bool, inputs: Array, residuals: Array, trend: Trend | None = None
    ) -> Array:
        """Return an agent's v, shape (K,); zeros if it says nothing.

        Args:
            family: the kernel's.
            ard: one length scale per parameter instead of one for all.
            inputs: points of the cube, shape (n, D).
            residuals: outputs minus the mean, shape (n,).
            trend: of the model, in warped coordinates; None: it has none.
        """
        if not residuals.any():
            return np.zeros(self.size)
        r, whole = residuals / spread(residuals), identity(self._space.dimension)
        costs = WarpCosts(self._space, family, ard, inputs, r, trend)
        parts = []
        for axes, basis in zip(self._groups, self._bases, strict=True):
            T = [-costs.rough_misfit(whole.changed(node)) for node in _nodes(axes)]
            parts.append((basis * np.array(T)[:, None]).mean(axis=0))
        return np.concatenate(parts)

    def scales(self, total: Array, deviation: float, agents: int) -> SharedScales:
        """Return what a sum of vectors says.

        Args:
            total: m, shape (K,).
            deviation: s, at least 0.
            agents: N.
        """
        gains, start = [], 0
        for basis in self._bases:
            m = total[start : start + basis.shape[1]]
            start += basis.shape[1]
            differences = basis - basis[0]
            G = (differences * m).sum(axis=1)
            chance = deviation * np.sqrt(np.square(differences).sum(axis=1))
            L = np.where(G > 0.0, np.maximum(G - chance, 0.0), G)
            gains.append(tuple(L.tolist()))
        return SharedScales(self._space.dimension, self._groups, tuple(gains), agents)


def _nodes(axes: Sequence[int]) -> list[dict[int, float]]:
    """Return the nodes of a group of axes: strengths by axis; the first is all zeros."""
    return [
        dict(zip(axes, each, strict=True))
        for each in itertools.product(SHARED_STRENGTHS, repeat=len(axes))
    ]


def _polynomials(axes: int) -> Array:
    """Return F on the nodes of a group of axes, shape (J, K), K = (axes^2 + 3 axes) / 2."""
    a = np.array(list(itertools.product(SHARED_STRENGTHS, repeat=axes)))
    columns = [np.ones(len(a)), *a.T]
    for i, j in itertools.combinations_with_replacement(range(axes), 2):
        columns.append(a[:, i] * a[:, j])
    Q, R = np.linalg.qr(np.array(columns).T)
    signs = np.where(R.diagonal() < 0.0, -1.0, 1.0)  # a QR's signs differ between libraries
    F: Array = math.sqrt(len(a)) * Q * signs
    return F[:, 1:]
