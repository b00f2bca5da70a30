"""Optional abilities of users' objects."""

from __future__ import annotations

from typing import Any

import pytest

from fedsim.protocol import AggregatingServer, PreparingAgent, SecretHolder
from fedsim.resources import NeedsResources
from fedsim.usercode.calling import offers
from fedsim.workload import KnowsOptimum


class Wrapper:
    """Delegates everything to what it wraps."""

    def __init__(self, inner: object) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Inner:
    resources = None
    holds_secrets = True

    def optimum(self, agent: int) -> float:
        return 1.0


@pytest.mark.parametrize("ability", [KnowsOptimum, NeedsResources, SecretHolder])
def test_what_a_wrapper_delegates_counts(ability: type[Any]) -> None:
    assert offers(Inner(), ability)
    assert offers(Wrapper(Inner()), ability)
    assert not offers(Wrapper(object()), ability)


def test_all_members_are_needed() -> None:
    class Half:
        def prepare(self) -> None: ...

    assert not offers(Half(), PreparingAgent)


def test_a_property_that_lacks_something_is_not_taken_for_absent() -> None:
    class Typo:
        @property
        def aggregators(self) -> Any:
            return self.agregators  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="agregators"):
        offers(Typo(), AggregatingServer)
