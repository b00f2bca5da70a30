from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.errors import ConfigError, RunFolderError
from fedsim.privacy.events import (
    FixedSizeGaussian,
    SubsampledGaussian,
    UnknownEvent,
    event_from_record,
    sample_size,
)
from fedsim.privacy.ledger import Component, Ledger
from fedsim.protocol import PrivacyEvent

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
    resumed = Ledger.from_events(event_from_record(json.loads(line)) for line in journal)
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


def test_events_say_their_kind_and_the_first_journals_named_none() -> None:
    event = SubsampledGaussian(0.1, 1, 2)
    record = event.record()
    assert record.pop("kind") == "subsampled-gaussian"
    assert event_from_record(record) == event


def test_an_event_of_an_unknown_kind_is_kept_as_it_is() -> None:
    record = {"kind": "local-release", "agent": 3, "noise_multiplier": 2.0}
    event = event_from_record(record)
    assert event == UnknownEvent("local-release", 3, json.dumps(record))
    assert event.record() == record
    assert Ledger.from_events([event, event]).releases == 2
    with pytest.raises(ConfigError, match="subsampled Gaussian mechanism, got UnknownEvent"):
        Ledger.from_events([event]).components()


@pytest.mark.parametrize(
    "record", [{"sampling_rate": 0.1}, {"sampling_rate": 2, "noise_multiplier": 1}, {"x": 1}]
)
def test_a_damaged_event_is_named(record: dict[str, float]) -> None:
    with pytest.raises(RunFolderError, match="damaged privacy event"):
        event_from_record({"exact_noise_multiplier": 1.0, **record})


def test_an_event_that_is_no_record_is_named() -> None:
    with pytest.raises(RunFolderError, match="damaged privacy event 5"):
        event_from_record(5)


def test_an_agent_pays_its_own_events_and_those_of_everybody() -> None:
    shared = SubsampledGaussian(0.1, 1, 1)
    own = {agent: UnknownEvent("local-release", agent, str(agent)) for agent in (2, 5)}
    ledger = Ledger.from_events([shared, own[5], own[2], shared])
    assert ledger.payers == (2, 5)
    assert ledger.of(2) == Ledger.from_events([shared, own[2], shared])
    assert ledger.of(None) == Ledger.from_events([shared, shared])
    assert Ledger.from_events([shared]).payers == (None,)


class TestFixedSize:
    def test_an_event_comes_back_from_the_journal(self) -> None:
        event = FixedSizeGaussian(29, np.int64(10), np.float32(1), 2)  # type: ignore[arg-type]
        record = json.loads(json.dumps(event.record()))
        assert record == {
            "kind": "fixed-size-gaussian",
            "agents": 29,
            "sample_size": 10,
            "noise_multiplier": 1.0,
            "exact_noise_multiplier": 2.0,
        }
        assert event_from_record(record) == event
        assert event.sampling_rate == 10 / 29

    @pytest.mark.parametrize("damage", [{"sample_size": 0}, {"agents": 9}, {"sample_size": 2.5}])
    def test_damage_is_found(self, damage: dict[str, Any]) -> None:
        record = FixedSizeGaussian(29, 10, 1.0, 2.0).record()
        with pytest.raises(RunFolderError, match="damaged privacy event"):
            event_from_record({**record, **damage})

    def test_it_is_not_counted_with_poisson_sampling(self) -> None:
        both: list[PrivacyEvent] = [
            FixedSizeGaussian(10, 5, 1.0, 1.0),
            SubsampledGaussian(0.5, 1.0, 1.0),
        ]
        assert Ledger.from_events(both).components() == (
            Component(0.5, 1.0, 1, "fixed"),
            Component(0.5, 1.0, 1, "poisson"),
        )

    @pytest.mark.parametrize(
        ("agents", "rate", "size"), [(100, 0.29, 29), (29, 0.35, 10), (29, 1, 29), (7, 1 / 7, 1)]
    )
    def test_its_size_is_the_whole_part_of_the_mean(
        self, agents: int, rate: float, size: int
    ) -> None:
        assert sample_size(agents, rate) == size
