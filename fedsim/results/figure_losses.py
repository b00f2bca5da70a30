"""Privacy losses that a figure compares: Poisson samples and samples of a fixed size."""

from __future__ import annotations

from collections.abc import Sequence

from fedsim.privacy.accountants import AccountantName, default_delta, make_accountant
from fedsim.privacy.calibration import constant_loss
from fedsim.privacy.events import Sampling
from fedsim.results.figures import Loss

_POISSON: tuple[AccountantName, ...] = ("moments", "rdp", "pld")
_FIXED: tuple[AccountantName, ...] = ("rdp", "pld")


def compared_losses(settings: Sequence[Loss]) -> list[dict[str, float]]:
    """Return each setting with its ε at the default δ, N^-1.1, by sampling scheme and accountant.

    Args:
        settings: the settings; the sample of a fixed size has the same expected size.
    """
    return [_losses(one) for one in settings]


def _losses(one: Loss) -> dict[str, float]:
    told = {"N": one.agents, "T": one.rounds, "q": one.sampling_rate, "z": one.noise_multiplier}
    poisson = {f"Poisson, {name}": _epsilon(one, name, "poisson") for name in _POISSON}
    return {**told, **poisson, **{f"fixed size, {n}": _epsilon(one, n, "fixed") for n in _FIXED}}


def _epsilon(one: Loss, accountant: AccountantName, sampling: Sampling) -> float:
    return constant_loss(
        one.sampling_rate,
        one.noise_multiplier,
        one.rounds,
        default_delta(one.agents),
        make_accountant(accountant),
        sampling,
        one.agents,
    ).epsilon
