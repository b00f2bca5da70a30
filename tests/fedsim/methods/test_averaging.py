"""What a plan says of noise that drowns all signals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedsim.config.construct import plan_warnings
from fedsim.methods.averaging import (
    LEAST_SIGNAL,
    FewReleasesSettings,
    PrivacySettings,
    averaging,
    warnings_of_noise,
)
from fedsim.methods.dp_fts_de import DPFTSDE
from fedsim.methods.dp_prior import DPPrior
from fedsim.privacy.mechanism import SubsampledGaussianMechanism
from fedsim.privacy.weights import WeightSchedule
from fedsim.protocol import Context, Reply
from fedsim.rng import SERVER, Keys
from fedsim.space import Parameter, Space

CONTEXT = Context(Space((Parameter("x", 0.0, 1.0),)), 4, 12, 0)


@pytest.mark.parametrize("regions", [1, 2])
@pytest.mark.parametrize("clipping_norm", [0.5, 1e4])
def test_the_signal_is_at_most_what_is_told(regions: int, clipping_norm: float) -> None:
    """Equal vectors of norm sqrt(M), of all agents: what a release then records is the bound."""
    made = SubsampledGaussianMechanism(
        4, 9, regions, clipping_norm, 1.0, 1.0, WeightSchedule("uniform")
    )
    vector = np.zeros(9)
    vector[0] = 3.0
    replies = [Reply(agent, "ok", {"vector": vector}) for agent in range(4)]
    release = made.aggregate(0, replies, None, Keys(0, SERVER, 0))  # type: ignore[arg-type]
    found = release.experimenter["signal_to_noise"]
    told = replace(made, noise_multiplier=found / LEAST_SIGNAL * 1.0001)
    assert (
        warnings_of_noise(replace(told, noise_multiplier=told.noise_multiplier / 1.0002), 0) == []
    )
    (warning,) = warnings_of_noise(told, 0)
    assert warning.startswith("the signal of a release is at most about 0.01 of its noise")


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 0),
        ({"clipping_norm": 1e308}, 1),
        ({"noise_multiplier": 1e6}, 1),
        ({"sampling_rate": 1e-6}, 1),
        ({"clipping_norm": 1e308, "noise_only": True}, 0),
        (None, 0),
    ],
)
def test_methods_with_a_mechanism_warn(changes: dict[str, Any] | None, count: int) -> None:
    full = None if changes is None else PrivacySettings(**changes)
    few = None if changes is None else FewReleasesSettings(**changes)
    for method in (DPFTSDE(CONTEXT, dp=full), DPPrior(CONTEXT, dp=few)):
        assert len(plan_warnings(method)) == count
    assert plan_warnings(DPFTSDE(CONTEXT, dp=full, share_until=0)) == ()


def test_infinite_noise_is_no_error() -> None:
    dp = PrivacySettings(clipping_norm=1e308, noise_multiplier=1e308)
    made = averaging(dp, 4, 10, 2, WeightSchedule())
    assert warnings_of_noise(made, 0)[0].startswith("the signal of a release is at most about 0 of")
