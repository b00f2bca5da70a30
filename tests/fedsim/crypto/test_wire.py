"""Messages: what is sealed comes back; whatever is changed is found and told."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.crypto.parameters import Layout, Parameters
from fedsim.crypto.wire import OVERHEAD, Header, Kind, as_array, as_messages, seal, unseal
from fedsim.errors import RunError

HEADER = Header(Kind.SHARE, 1, b"p" * 16, b"s" * 32, 3, 7, 44)
PAYLOAD = bytes(range(96))
MESSAGE = seal(HEADER, PAYLOAD)


def test_the_layout_is_the_documented_one() -> None:
    assert OVERHEAD == 100
    assert len(MESSAGE) == len(PAYLOAD) + 100
    start = b"FBHE" + bytes([1, 3, 1, 0]) + b"p" * 16 + b"s" * 32
    start += b"".join(number.to_bytes(4, "little") for number in (3, 7, 44))
    assert MESSAGE[: len(start)] == start
    assert MESSAGE[68:-32] == PAYLOAD
    assert bytes(unseal(MESSAGE, HEADER, len(PAYLOAD), "it")) == PAYLOAD


@given(st.integers(0, len(MESSAGE) - 1), st.integers(0, 7))
def test_a_flipped_bit_is_found(position: int, bit: int) -> None:
    changed = bytearray(MESSAGE)
    changed[position] ^= 1 << bit
    with pytest.raises(RunError, match="the share of agent 7: its digest does not match"):
        unseal(bytes(changed), HEADER, len(PAYLOAD), "the share of agent 7")


@pytest.mark.parametrize("message", [b"", MESSAGE[:-1], MESSAGE + b"\0", MESSAGE[:50]])
def test_another_length_is_found(message: bytes) -> None:
    with pytest.raises(RunError, match=rf"expected 196 bytes, got {len(message)}"):
        unseal(message, HEADER, len(PAYLOAD), "it")


@pytest.mark.parametrize("message", [b"", MESSAGE[:99]])
def test_a_message_of_any_length_has_a_header(message: bytes) -> None:
    with pytest.raises(RunError, match="expected 100 bytes"):
        unseal(message, HEADER, None, "it")


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("kind", Kind.AGGREGATE, "expected 3, got 4"),
        ("part", 2, "expected 1, got 2"),
        ("parameters", b"q" * 16, "expected 7070707070707070, got 7171717171717171"),
        ("session", b"t" * 32, "expected 7373737373737373, got 7474747474747474"),
        ("round", 2, "expected 3, got 2"),
        ("client", 8, "expected 7, got 8"),
        ("coefficients", 45, "expected 44, got 45"),
    ],
)
def test_every_field_of_the_header_is_compared(field: str, value: Any, told: str) -> None:
    other = seal(replace(HEADER, **{field: value}), PAYLOAD)
    with pytest.raises(RunError, match=f"it: its {field}: {told}"):
        unseal(other, HEADER, len(PAYLOAD), "it")


def test_another_protocol_is_refused() -> None:
    for start in (b"XBHE\1", b"FBHE\2"):
        body = start + MESSAGE[5:-32]
        with pytest.raises(RunError, match="expected b'FBHE' version 1, got"):
            unseal(body + hashlib.sha256(body).digest(), HEADER, len(PAYLOAD), "it")


def test_rows_of_bytes() -> None:
    assert as_messages(as_array([b"ab", b"cd"]), 2, "it") == [b"ab", b"cd"]
    wrong: Any
    for wrong in (None, np.zeros((2, 2)), np.zeros(4, np.uint8), np.zeros((3, 1), np.uint8)):
        with pytest.raises(RunError, match="it: expected 2 rows of bytes, got"):
            as_messages(wrong, 2, "it")


@pytest.mark.parametrize(
    ("length", "parts", "coefficients"),
    [(1, 1, 40), (40, 1, 40), (44, 1, 44), (560, 1, 560), (8192, 1, 8192), (8384, 2, 4192)],
)
def test_vectors_are_spread_evenly(length: int, parts: int, coefficients: int) -> None:
    assert Layout.of(length) == Layout(length, parts, coefficients)


def test_parameters_have_one_identifier_each() -> None:
    made = {Parameters(40).identifier, Parameters(41).identifier, Parameters(40, 5).identifier}
    assert len(made) == 3
    assert {len(one) for one in made} == {16}
