"""Users' errors, and optional abilities of their objects."""

from __future__ import annotations

from typing import Any

import pytest

from fedsim.errors import ProtocolError, UserCodeError
from fedsim.protocol import AggregatingServer, PreparingAgent, SecretHolder
from fedsim.resources import NeedsResources
from fedsim.usercode.calling import offers, user_code, words_of
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


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError(), "ValueError"),
        (AssertionError(" \n"), "AssertionError"),
        (KeyError("x"), "KeyError: 'x'"),
        (RuntimeError("a: b"), "RuntimeError: a: b"),
        (ProtocolError(), "ProtocolError"),
    ],
)
def test_an_error_without_a_message_has_no_colon_at_its_end(error: Exception, words: str) -> None:
    assert words_of(error) == words
    with pytest.raises(UserCodeError) as caught, user_code("it failed"):
        raise error
    assert str(caught.value) == f"it failed: {words}"
