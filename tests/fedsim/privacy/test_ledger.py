from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.errors import ConfigError
from fedsim.privacy.events import SubsampledGaussian
from fedsim.privacy.ledger import Component, Ledger

events = st.sampled_from(
    [SubsampledGaussian(q, z, z * gain) for q in (0.1, 0.5) for z in (1, 2) for gain in (1, 1.5, 2)]
)


def test_equal_releases_are_counted_together() -> None:
    a, b = SubsampledGaussian(0.1, 1, 2), SubsampledGaussian(0.1, 1, 1)
    ledger = Ledger.from_events([a, a, b, a])
    assert ledger.counts == ((a, 3), (b, 1))
    assert ledger.releases == 4
    assert ledger.components() == (Component(0.1, 1.0, 4),)
    assert ledger.components("exact") == (Component(0.1, 2.0, 3), Component(0.1, 1.0, 1))


def test_charging_leaves_the_ledger_as_it_was() -> None:
    empty = Ledger()
    one = empty.charge(SubsampledGaussian(0.1, 1, 1))
    assert empty == Ledger()
    assert (empty.releases, one.releases) == (0, 1)
    with pytest.raises(AttributeError):
        one.counts = ()  # type: ignore[misc]


@given(history=st.lists(events, max_size=30), cut=st.integers(0, 30))
@settings(max_examples=50, deadline=None)
def test_a_resumed_ledger_is_the_uninterrupted_one(
    history: list[SubsampledGaussian], cut: int
) -> None:
    charged = Ledger()
    for event in history:
        charged = charged.charge(event)
    journal = [json.dumps(event.record()) for event in history[:cut]]
    resumed = Ledger.from_events(json.loads(line) for line in journal)
    for event in history[cut:]:
        resumed = resumed.charge(event)
    assert resumed == charged == Ledger.from_events(history)


@pytest.mark.parametrize("number", [int, np.float32, np.int32, np.float64])
def test_keys_hold_python_floats(number: Any) -> None:
    ledger = Ledger.from_events([SubsampledGaussian(number(1), number(2), number(3))] * 2)
    assert ledger == Ledger.from_events([SubsampledGaussian(1.0, 2.0, 3.0)] * 2)
    for accounting in ("paper", "exact"):
        for component in ledger.components(accounting):
            assert type(component.sampling_rate) is float
            assert type(component.noise_multiplier) is float
    json.dumps(ledger.counts[0][0].record())


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ((-0.1, 1, 1), "sampling_rate"),
        ((1.1, 1, 1), "sampling_rate"),
        ((math.nan, 1, 1), "sampling_rate"),
        ((0.1, -1, 1), "noise_multiplier"),
        ((0.1, math.nan, 1), "noise_multiplier"),
        ((0.1, 1, 0.9), "exact_noise_multiplier"),
        ((0.1, 1, math.inf), "exact_noise_multiplier"),
    ],
)
def test_bad_events_are_refused(values: tuple[float, float, float], name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: expected"):
        SubsampledGaussian(*values)
