"""Users' errors, and optional abilities of their objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fedsim.errors import ProtocolError, RunError, UserCodeError
from fedsim.protocol import AggregatingServer, PreparingAgent, SecretHolder
from fedsim.resources import NeedsResources
from fedsim.usercode.calling import (
    class_of,
    expect,
    offers,
    user_code,
    user_traceback,
    whole_traceback,
    words_of,
)
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


class Unshown:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class LeavingError(Exception):
    def __str__(self) -> str:
        raise SystemExit(5)


class NumberError(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


class Words(str):
    def strip(self, chars: str | None = None) -> str:
        raise RuntimeError("no text")

    def __len__(self) -> int:
        raise RuntimeError("no length")


class WordedError(Exception):
    def __str__(self) -> str:
        return Words("odd")


class NotedError(Exception):
    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        raise RuntimeError("no notes")


class ClosedError(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class Meta(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class NamelessError(Exception, metaclass=Meta):
    pass


class OurOwnError(RunError):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def syntax_error() -> SyntaxError:
    error = SyntaxError("m")
    error.lineno, error.filename, error.text = "x", Unshown(), 5  # type: ignore[assignment]
    return error


def with_note() -> ValueError:
    error = ValueError("plain")
    error.__notes__ = [Unshown()]  # type: ignore[list-item]
    return error


def caused() -> ValueError:
    error = ValueError("outer")
    error.__cause__ = NotedError("inner")
    return error


HIDDEN = "(its message cannot be shown)"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (SilentError, f"SilentError: {HIDDEN}"),
        (LeavingError, f"LeavingError: {HIDDEN}"),
        (NumberError, f"NumberError: {HIDDEN}"),
        (lambda: ValueError(Unshown()), f"ValueError: {HIDDEN}"),
        (WordedError, "WordedError: odd"),
        (lambda: NotedError("x"), "NotedError: x"),
        (lambda: ClosedError("x"), "ClosedError: x"),
        (lambda: NamelessError("x"), "NamelessError: x"),
        (OurOwnError, f"OurOwnError: {HIDDEN}"),
        (with_note, "ValueError: plain"),
        (caused, "ValueError: outer"),
        (lambda: ExceptionGroup("g", [SilentError()]), "ExceptionGroup: g (1 sub-exception)"),
        (syntax_error, None),
    ],
    ids=lambda value: getattr(value, "__name__", None),  # not its address, which differs
)
def test_an_error_is_told_whatever_its_own_code_does(
    make: Callable[[], Exception], words: str | None
) -> None:
    error, told = make(), []
    try:
        with user_code("it failed"):
            raise error
    except UserCodeError as found:
        told.append(found.user_traceback)
        summary = str(found)
    words = words or words_of(error)  # Python's own, of such a SyntaxError, differ by version
    assert words_of(error) == words
    assert summary == f"it failed: {words}"
    for text in (*told, user_traceback(error), whole_traceback(error)):
        assert "raise error" in text
        assert class_of(error) in text


class Leaving:
    def __repr__(self) -> str:
        raise SystemExit(5)


@pytest.mark.parametrize("kind", [Unshown, Leaving])
def test_a_value_without_a_text_is_told(kind: type) -> None:
    with pytest.raises(RunError, match=rf"^reply: expected 1, got <.*{kind.__name__} object at"):
        expect(False, "reply", "1", kind())
