"""What methods with encrypted sums have in common: their scheme, and constants of the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable

from fedsim.crypto import Encryption, Scheme, SecureSum, fraction_bits_for
from fedsim.errors import ConfigError, require


def scheme_of(
    encryption: Encryption, largest: float, minimum_members: int, strict_decryption: bool
) -> Scheme:
    """Return the scheme for numbers up to ``largest``, a public bound.

    Raises:
        ConfigError: if a setting is out of range, or such numbers do not fit.
    """
    try:
        bits = fraction_bits_for(largest)
        return Scheme(encryption, bits, minimum_members, strict_decryption)
    except ConfigError as error:
        raise ConfigError(f"method.{error}") from None


def aggregator_of(scheme: Scheme, agents: int) -> SecureSum:
    """Return the sum over ``agents`` clients.

    Raises:
        ConfigError: if they are too few or too many for the scheme.
    """
    try:
        return scheme.aggregator(range(agents))
    except ConfigError as error:
        raise ConfigError(f"method.minimum_members: {error}") from None


def warnings_of_few_data(
    agents: int, initial_points: int, rounds: int, support_size: Callable[[int], int]
) -> list[str]:
    """Return a warning if sums are made while fewer than |S| + 1 observations exist.

    Such a sum determines all of them: see ``docs/encryption.md``.

    Args:
        agents: how many clients; all are there in every round.
        initial_points: of each client, in round 0; each later round adds one.
        rounds: T; a sum is made in rounds 0 to T - 1.
        support_size: |S| in a round.
    """
    few = [t for t in range(rounds) if agents * (initial_points + t) <= support_size(t)]
    if not few:
        return []
    needed = support_size(few[-1]) + 1
    when = "in all rounds" if few[-1] == rounds - 1 else f"before round {few[-1] + 1}"
    return [
        f"{when} all clients together have fewer than |S| + 1 = {needed} observations, and a sum "
        "of so few determines all of them (docs/encryption.md)"
    ]


def check_output_constants(mean: float, scale: float) -> None:
    """Check the public constants of the outputs.

    Raises:
        ConfigError: if the mean is not a number, or the scale not one above 0.
    """
    require(math.isfinite(mean), "method.output_mean", "a number", mean)
    fits = 0 < scale < math.inf
    require(fits, "method.output_scale", "a number above 0", scale)
