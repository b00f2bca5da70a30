"""Secure sums in whole runs: journals do not depend on the scheme; what crosses between actors."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.crypto import ckks
from fedsim.errors import Interrupted
from tests.actors.tapped import noted_keys
from tests.util.processes import Killer
from tests.util.small import body, make, run

ENCRYPTED = ("threshold", "ckks")


def config_of(bowl: dict[str, Any], encryption: str, **changes: Any) -> dict[str, Any]:
    method = {"name": "summing:Summing", "encryption": encryption}
    serial = {"backend": "serial", "agents_per_actor": "auto"}
    return {**bowl, "method": method, **serial, **changes}


def journal_body(config: dict[str, Any], folder: Path) -> bytes:
    """Run it; return the lines after the journal's header, which tells settings apart."""
    (one,) = fedsim.run(config, out=folder).runs
    return body(one.folder.journal)


@pytest.mark.parametrize("availability", [1.0, 0.6])
def test_journals_do_not_depend_on_the_scheme(
    bowl: dict[str, Any], tmp_path: Path, availability: float
) -> None:
    found = {
        encryption: journal_body(
            config_of(bowl, encryption, availability=availability, rounds=5), tmp_path / encryption
        )
        for encryption in ("plain", *ENCRYPTED)
    }
    assert len(set(found.values())) == 1
    assert found["plain"].count(b"\n") == 6 + 5  # steps and releases


@pytest.mark.parametrize("encryption", ENCRYPTED)
def test_a_resumed_run_makes_new_keys_and_the_same_journal(
    bowl: dict[str, Any], tmp_path: Path, encryption: str
) -> None:
    raw = config_of(bowl, encryption)
    expected = run(make(tmp_path / "whole", raw))
    simulation = make(tmp_path / "parts", raw)

    def stop(progress: Any) -> None:
        if progress.round == 3:
            raise Interrupted("enough")

    with pytest.raises(Interrupted):
        run(simulation, stop)
    assert run(simulation) == expected


@pytest.mark.parametrize("encryption", ENCRYPTED)
def test_keys_are_nowhere_in_the_run_folder(
    bowl: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encryption: str
) -> None:
    noted = tmp_path / "noted"
    noted.mkdir()
    monkeypatch.setattr(ckks, "make_key", noted_keys(noted, ckks.make_key))
    method = {"name": "tapped:Noted", "encryption": encryption, "folder": str(noted)}
    config = config_of(bowl, encryption, method=method, rounds=2)
    (one,) = fedsim.run(config, out=tmp_path / "run").runs
    written = b"".join(p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file())
    with np.load(one.folder.path / "state" / "checkpoint.npz") as arrays:
        assert set(arrays.files) <= {"counts", "aggregators", "program/sum", "program/members"}
        written += b"".join(arrays[name].tobytes() for name in arrays.files)
        assert any(form in written for form in forms(arrays["program/sum"].tobytes()))
    secrets = {path.read_bytes() for path in noted.glob("secret-*")}
    assert len(secrets) == (6 * 3 if encryption == "threshold" else 1)
    some = [piece for secret in secrets for piece in pieces(secret)[::16]]
    assert not any(form in written for piece in some for form in forms(piece))


@pytest.mark.parametrize("encryption", ["plain", *ENCRYPTED])
def test_a_transcript_holds_ciphertexts_shares_and_the_sum(
    bowl: dict[str, Any], tmp_path: Path, encryption: str
) -> None:
    config = config_of(bowl, encryption, transcript=True, rounds=2)
    (one,) = fedsim.run(config, out=tmp_path / "run").runs
    lines = [json.loads(line) for line in one.folder.transcript.read_text().splitlines()]
    releases = [line["release"] for line in lines if "release" in line]
    assert [set(release) for release in releases] == [{"sum", "members"}] * 2
    received = [line for line in lines if line["kind"] == "aggregated"]
    arrays = [
        array for line in received for reply in line["replies"] for array in reply[2].values()
    ]
    if encryption == "plain":  # the server sees all
        assert sum(np.sum(a, dtype=float) for a in arrays if len(a) == 44) != 0
        assert all(isinstance(array, list) for array in arrays)
        return
    kinds = [line["request"] for line in received]
    assert kinds.count("secure-sum-share") == 2
    assert kinds.count("secure-sum-upload") == 3  # once without keys
    assert all(set(array) == {"base64"} for array in arrays)
    messages = [base64.b64decode(array["base64"]) for array in arrays]
    ciphertexts = [m for m in messages if m[:6] == b"FBHE\1\2"]
    assert len(ciphertexts) == 2 * 6
    assert all(len(m) > 190_000 for m in ciphertexts)


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("encryption", ["threshold", pytest.param("ckks", marks=pytest.mark.slow)])
def test_on_ray_with_a_host_killed_journals_are_those_of_plain_sums(
    bowl: dict[str, Any], tmp_path: Path, encryption: str
) -> None:
    bowl["scenario"] = {**bowl["scenario"], "pause": 0.02}
    expected = journal_body(config_of(bowl, "plain"), tmp_path / "plain")
    folder = tmp_path / "ray"
    config = config_of(bowl, encryption, backend="ray", agents_per_actor=3)
    killer = Killer("AgentHost", {folder / "seed-0" / "journal.jsonl": 4})
    found = journal_body(config, folder)
    killer.check(last=bowl["rounds"] + 1)
    assert found == expected
    lines = (folder / "seed-0" / "timings.jsonl").read_text().splitlines()
    calls = [json.loads(line) for line in lines]
    lost = [call["t"] for call in calls if call.get("lost_keys")]
    assert len(set(lost)) >= 2  # round 0, when nobody had keys, and after the kill


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("encryption", [*ENCRYPTED, pytest.param("plain", marks=pytest.mark.slow)])
def test_what_crosses_between_actors(bowl: dict[str, Any], tmp_path: Path, encryption: str) -> None:
    """No plaintext of a client, no secret key, no pickle of a context."""
    tapped = tmp_path / "tapped"
    tapped.mkdir()
    method = {"name": "tapped:Tapped", "encryption": encryption, "folder": str(tapped)}
    config = config_of(bowl, encryption, method=method, rounds=2)
    found = journal_body({**config, "backend": "ray", "agents_per_actor": 3}, tmp_path / "run")
    assert found == journal_body(config_of(bowl, "plain", rounds=2), tmp_path / "plain")
    sent = [path.read_bytes() for path in tapped.glob("sent-*")]
    assert len(sent) >= 3  # the server and two hosts
    wire = b"".join(sent)
    vectors = [np.frombuffer(path.read_bytes()) for path in tapped.glob("vector-*")]
    assert len(vectors) >= 2 * 6
    integers = [np.rint(vector * 2.0**40).astype(np.int64) for vector in vectors]
    plain = [number.tobytes() for row in integers for number in row[:8]]
    if encryption == "plain":
        assert all(number in wire for number in plain)
        return
    assert wire.count(b"FBHE\1\2") >= 2 * 6
    numbers = [number.tobytes() for vector in vectors for number in vector[:8]]
    assert not any(number in wire for number in plain + numbers)
    secrets = [path.read_bytes() for path in tapped.glob("secret-*")]
    assert secrets
    assert not any(piece in wire for secret in secrets for piece in pieces(secret))
    assert b"tenseal" not in wire.lower()


def forms(data: bytes) -> list[bytes]:
    """Return bytes as files may have them: as they are, in hexadecimal, in base64 from any byte."""
    coded = [base64.b64encode(bytes(shift) + data)[4:-4] for shift in range(3)]
    return [data, data.hex().encode(), *coded]


def pieces(secret: bytes) -> list[bytes]:
    """Return some parts of a secret, of 64 bytes each."""
    return [
        secret[i : i + 64] for i in range(0, len(secret) - 63, max(64, len(secret) // 1024 * 64))
    ]
