"""The secure sum as a method uses it, with every scheme."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.crypto import Scheme, upload_request
from fedsim.crypto.secure_sum import MOST_SETUPS, UPLOAD
from fedsim.errors import ConfigError, RunError
from fedsim.protocol import AgentId
from fedsim.testing import check_method
from tests.actors.summing import Summing
from tests.fedsim.crypto.federation import Federation

ENCRYPTED = ("threshold", "ckks")
SCHEMES = ("plain", "threshold", "ckks")


@pytest.mark.parametrize("encryption", SCHEMES)
def test_it_conforms(encryption: Any) -> None:
    check_method(lambda context: Summing(context, encryption=encryption))


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(Path(__file__).parents[2] / "actors")
    return {
        "name": "sums",
        "scenario": {"name": "synthetic", "agents": 4, "grid_size": 20},
        "method": {"name": "summing:Summing"},
        "rounds": 4,
        "backend": "serial",
    }


def test_too_few_members_have_no_sum(config: dict[str, Any], tmp_path: Path) -> None:
    config["availability"] = 0.6
    (one,) = fedsim.run(config, out=tmp_path / "run").runs
    members = one.rounds["info.members"].dropna().to_list()
    assert min(members) == 0
    assert max(members) >= 3
    assert not {1, 2} & set(members)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encryption": "rot13"}, "encryption: unknown name 'rot13'; .*plain"),
        ({"encryption": "plain", "fraction_bits": 61}, "fraction_bits: expected 0 to 60, got 61"),
        (
            {"encryption": "ckks", "strict_decryption": True},
            "strict_decryption: expected encryption threshold, got ckks",
        ),
        ({"encryption": "plain", "minimum_members": 0}, "minimum_members: expected 1 to 1024"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Scheme(**{"fraction_bits": 40, **settings})


@pytest.mark.parametrize("count", [0, 2, 1025])
def test_federations_that_are_too_small_or_too_large(count: int) -> None:
    with pytest.raises(ConfigError, match=f"expected 3 to 1024 agents, got {count}"):
        Scheme("plain", fraction_bits=40).aggregator(range(count))


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (np.zeros(3), r"agent 7: .*expected shape \(2,\), got \(3,\)"),
        (np.array([0.0, np.nan]), "agent 7: .*finite numbers, got nan at index 1"),
        (np.array([3e6, 0.0]), r"agent 7: .*below 2.09715e\+06 .*got 3e\+06 at index 0.*correct"),
    ],
)
def test_a_client_refuses_what_does_not_fit(vector: Any, message: str) -> None:
    client = Scheme("plain", fraction_bits=40).client(7)
    with pytest.raises(RunError, match=message):
        client.reply(upload_request(2, {}), lambda payload: vector)


@pytest.mark.parametrize("encryption", ENCRYPTED)
def test_clients_that_are_made_anew_for_every_request_are_an_error(encryption: str) -> None:
    federation = Federation(encryption)

    def forget(kind: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
        federation.restart(agent)
        return payload

    federation.change = forget
    with pytest.raises(RunError, match=r"sum in round 3: .* 10 times; keep the client in the ag"):
        federation.release(3)
    assert federation.asked.count(UPLOAD) == 1 + MOST_SETUPS


@pytest.mark.parametrize("encryption", ENCRYPTED)
def test_members_may_lose_their_keys_often(encryption: str) -> None:
    federation, lost = Federation(encryption), list(range(MOST_SETUPS - 2))

    def forget(kind: str, agent: AgentId, payload: dict[str, Any]) -> dict[str, Any]:
        if kind == UPLOAD and agent == 2 and lost:
            lost.pop()
            federation.restart(0)
        return payload

    federation.change = forget
    payload = federation.release()
    assert not lost
    assert payload is not None
    assert np.array_equal(payload["sum"], federation.expected())
