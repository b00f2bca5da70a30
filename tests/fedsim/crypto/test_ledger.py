"""A client's answers to requests for decryption."""

from __future__ import annotations

import numpy as np
import pytest

from fedsim.crypto.ledger import AnswerLedger
from fedsim.errors import RunError
from fedsim.protocol import Payload


class Maker:
    """Makes another answer each time."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Payload:
        self.calls += 1
        return {"answer": np.array(self.calls)}


def test_equal_requests_get_the_same_answer() -> None:
    ledger, make = AnswerLedger(7), Maker()
    assert ledger.upload() == 0
    first = ledger.once(3, (1, 7), [b"a", b"b"], make)
    assert ledger.once(3, (1, 7), [b"a", b"b"], make) is first
    assert (make.calls, ledger.decryptions) == (1, 2)
    assert ledger.upload() == 1
    assert ledger.once(4, (1, 7), [b"a"], make) == {"answer": 2}
    assert ledger.decryptions == 3


@pytest.mark.parametrize("other", [(4, (1, 7), [b"a"]), (3, (2, 7), [b"a"]), (3, (1, 7), [b"b"])])
def test_one_upload_is_decrypted_for_one_request(
    other: tuple[int, tuple[int, ...], list[bytes]],
) -> None:
    ledger, make = AnswerLedger(7), Maker()
    ledger.upload()
    ledger.once(3, (1, 7), [b"a"], make)
    with pytest.raises(RunError, match=r"agent 7 refuses: .* the sum of upload 0 already"):
        ledger.once(*other, make)
    assert make.calls == 1


@pytest.mark.parametrize(("t", "members"), [(3, (2, 7)), (2, (1, 7))])
def test_one_round_has_one_set_of_members(t: int, members: tuple[int, ...]) -> None:
    """Also in the next session."""
    ledger, make = AnswerLedger(7), Maker()
    ledger.upload()
    ledger.once(3, (1, 7), [b"a"], make)
    ledger.new_session()
    ledger.upload()
    with pytest.raises(RunError, match=rf"in round {t}: it has decrypted one of .* in round 3"):
        ledger.once(t, members, [b"b"], make)
    assert (make.calls, ledger.decryptions) == (1, 0)


def test_what_fails_is_not_decrypted() -> None:
    ledger = AnswerLedger(7)
    ledger.upload()

    def fail() -> Payload:
        raise RunError("worn")

    with pytest.raises(RunError, match="worn"):
        ledger.once(3, (1, 7), [b"a"], fail)
    assert ledger.once(3, (1, 8), [b"b"], Maker()) == {"answer": 1}
    assert ledger.decryptions == 1
