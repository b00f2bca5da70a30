"""Which agents each host has."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.actors.shares import Part, Share, deal


@given(agents=st.integers(1, 500), hosts=st.integers(1, 50))
def test_agents_are_dealt_there_and_back_and_evenly(agents: int, hosts: int) -> None:
    hands = deal(agents, hosts)
    assert sorted(a for hand in hands for a in hand) == list(range(agents))
    assert all(hand == tuple(sorted(hand)) for hand in hands)
    for lap in range(agents // hosts):
        dealt = [hand[lap] for hand in (reversed(hands) if lap % 2 else hands)]
        assert dealt == list(range(lap * hosts, (lap + 1) * hosts))
    sizes = {len(hand) for hand in hands}
    assert sizes <= {math.floor(agents / hosts), math.ceil(agents / hosts)}


@pytest.mark.parametrize(
    ("agents", "names"),
    [
        ((3,), "agent 3"),
        ((0, 2), "agents 0, 2"),
        ((0, 3, 4, 7), "agents 0, 3, 4, 7"),
        ((0, 3, 4, 7, 8), "agents 0, 3, ..., 8"),
    ],
)
def test_a_part_names_its_agents(agents: tuple[int, ...], names: str) -> None:
    host: Any = None
    assert Part(Share(agents, host), ()).names == names
