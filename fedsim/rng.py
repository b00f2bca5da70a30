"""Randomness: all of it comes from here.

No generator is global or reused: each use derives a new one from a key (seed, purpose, agent,
step, index). So a retry repeats the same draws, and a run's result does not depend on where or in
which order its parts were computed. Keys do not contain the method's name, so methods compared on
one seed share functions, initial designs and observation noise.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedsim.errors import ConfigError

SERVER = -1
"""The ``agent`` of keys that belong to no agent: public features, sampling, privacy noise."""

_LARGEST_WORD = 2**32 - 1


def rng(
    seed: int, purpose: str, agent: int, step: int, index: int = 0, call: int = 0
) -> np.random.Generator:
    """Return the generator of one key.

    Args:
        seed: the run's seed, at least 0.
        purpose: what the numbers are used for; any text.
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
    # The first call adds nothing to the key: most steps and rounds have only one.
    parts = (agent + 1, step, index, call) if call else (agent + 1, step, index)
    key = (_purpose_word(purpose), *parts)
    if min(parts) >= 0 and max(parts) <= _LARGEST_WORD:
        # The words that NumPy makes of SeedSequence(seed, spawn_key=key): a third of its time.
        words = np.array((*_seed_words(seed), *key), np.uint32)
        sequence = np.random.SeedSequence(words)
    else:
        sequence = np.random.SeedSequence(seed, spawn_key=key)
    return np.random.Generator(np.random.PCG64(sequence))


@lru_cache(maxsize=4096)
def _purpose_word(purpose: str) -> int:
    """Return 32 bits of the purpose's hash."""
    return int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:4], "little")


@lru_cache(maxsize=64)
def _seed_words(seed: int) -> tuple[int, ...]:
    """Return the seed's 32-bit words, lowest first, filled up to four with zeros."""
    count = max(4, -(-seed.bit_length() // 32))
    return tuple(seed >> 32 * i & _LARGEST_WORD for i in range(count))


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one agent (or the server) in one step: call it with a purpose.

    Attributes:
        seed: the run's seed.
        agent: the agent, or :data:`SERVER`.
        step: the agent's own count of steps (or the round, for the server).
        call: which request to the agent in this step, or which release in this round.
        scope: prefix of every purpose, so that an aggregator's requests have their own keys.
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
    """Like :class:`Keys`, but every generator is seeded by the operating system.

    For sampling and noise of a privacy mechanism whose draws must not be repeatable.
    """

    def __call__(self, purpose: str, index: int = 0) -> np.random.Generator:
        """Return a new generator; ``purpose`` and ``index`` are ignored."""
        # SeedSequence without entropy takes 128 bits from os.urandom (through secrets).
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence()))


Randomness = Keys | SystemKeys
