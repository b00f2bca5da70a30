"""The one way to get randomness.

No generator is global and none is carried along: each use derives a fresh one from a key
(seed, purpose, agent, step, index). A retry therefore repeats what it retries, and the
result of a run does not depend on where or in which order its parts were computed. Keys do
not hold the method's name, so that methods compared on one seed share their functions,
initial designs and observation noise.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from fedsim.errors import ConfigError

SERVER = -1
"""The ``agent`` of keys that belong to no agent: public features, sampling, privacy noise."""


def rng(
    seed: int, purpose: str, agent: int, step: int, index: int = 0, call: int = 0
) -> np.random.Generator:
    """Return the generator of one key.

    Args:
        seed: the run's seed, at least 0.
        purpose: what the numbers are for, any text.
        agent: the agent, or :data:`SERVER`.
        step: the agent's own count of steps (or the round, for the server), at least 0.
        index: distinguishes several draws of one purpose in one step, at least 0.
        call: distinguishes several requests to an agent in one step, or several releases of the
            server in one round, at least 0.

    Raises:
        ConfigError: if the seed is negative.
    """
    if seed < 0:
        raise ConfigError(f"seeds: expected an integer of at least 0, got {seed}")
    purpose_word = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:4], "little")
    # The first call adds nothing: most steps and rounds have one only.
    key = (purpose_word, agent + 1, step, index, *([call] if call else []))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one agent (or the server) in one step: call it with a purpose.

    Attributes:
        seed: the run's seed.
        agent: the agent, or :data:`SERVER`.
        step: the agent's own count of steps (or the round, for the server).
        call: which request to the agent in this step, or which release in this round.
        scope: put before every purpose, so that an aggregator's questions have own keys.
    """

    seed: int
    agent: int
    step: int
    call: int = 0
    scope: str = ""

    def __call__(self, purpose: str, index: int = 0) -> np.random.Generator:
        """Return the generator for ``purpose`` (and ``index``, for several draws)."""
        return rng(self.seed, self.scope + purpose, self.agent, self.step, index, self.call)


@dataclass(frozen=True, slots=True)
class SystemKeys:
    """Looks like :class:`Keys`, but every generator is seeded by the operating system.

    Used for the sampling and the noise of a privacy mechanism whose draws nobody may repeat.
    """

    def __call__(self, purpose: str, index: int = 0) -> np.random.Generator:
        """Return a fresh generator; ``purpose`` and ``index`` do not matter."""
        # SeedSequence without entropy takes 128 bits from os.urandom (through secrets).
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence()))


Randomness = Keys | SystemKeys
