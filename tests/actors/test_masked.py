"""The toy of secure summation follows the protocol, also in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.protocol import Payload, Request, Uncharged
from fedsim.record.entries import ReleaseEntry
from fedsim.record.journal import read_journal
from fedsim.rng import Keys
from fedsim.testing import ConformanceError, check_method
from tests.actors.masked import HORIZON, Masked, MaskedAgent, MaskedSum


def test_it_conforms() -> None:
    check_method(Masked, rounds=12)


def test_an_aggregator_that_forgets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: MaskedSum) -> dict[str, Any]:
        return {"total": np.array(0.0), "releases": np.array(self.releases)}

    monkeypatch.setattr(MaskedSum, "state", forgetful)
    with pytest.raises(ConformanceError, match=r"rebuilt .*got \(1, 'server'"):
        check_method(Masked)


def test_a_sum_that_depends_on_secrets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    reply = MaskedAgent.reply

    def leaky(self: MaskedAgent, request: Request, rng: Keys) -> Payload:
        found = dict(reply(self, request, rng))
        if "masked" in found:
            found["masked"] = found["masked"] + np.array((self.mask or 0) % 1000)
        return found

    monkeypatch.setattr(MaskedAgent, "reply", leaky)
    with pytest.raises(ConformanceError, match=r"rebuilt .*'server'"):
        check_method(Masked)


def test_a_horizon_is_paid_once(bowl: dict[str, Any], tmp_path: Path) -> None:
    config = {**bowl, "method": {"name": "masked:Masked"}, "backend": "serial"}
    config["agents_per_actor"] = "auto"
    (one,) = fedsim.run(config, out=tmp_path / "run").runs
    entries = read_journal(one.folder.journal)
    costs = [entry.cost for entry in entries if isinstance(entry, ReleaseEntry)]
    assert costs == [HORIZON] + [Uncharged.ALREADY_PAID] * (2 * bowl["rounds"] - 1)
    summary = one.summary()
    assert summary["epsilon"]["releases"] == 1
    assert one.rounds["epsilon_pld"].nunique() == 1
