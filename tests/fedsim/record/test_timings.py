"""Reading timings.jsonl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedsim.record.timings import read_timings


def write(path: Path, *lines: dict[str, Any], torn: str = "") -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + torn, "utf-8")
    return path


def finished(t: int, seconds: float) -> dict[str, Any]:
    return {"kind": "round", "t": t, "seconds": seconds, "server_cpu_seconds": 0.5, "info": {}}


CALL = {"kind": "call", "t": 0, "agent_cpu_seconds": 2.0, "objective_cpu_seconds": 1.5}


def test_durations_add_up(tmp_path: Path) -> None:
    lines = [finished(-1, 14.0), CALL, finished(0, 8.0), CALL, finished(1, 2.0), finished(2, 4.0)]
    found = read_timings(write(tmp_path / "t", *lines, torn='{"kind":"rou'))
    assert found.round_seconds == ((-1, 14.0), (0, 8.0), (1, 2.0), (2, 4.0))
    assert (found.objective_seconds, found.other_seconds) == (3.0, 3.0)
    assert found.evaluations_per_second(56) == 2.0  # those made before round 0 included
    assert found.seconds_left(10) == pytest.approx(30.0)  # the initial design does not count
    assert found.seconds_left(0) == 0.0
    assert found.first_failure is None


def test_nothing_is_known_before_a_round_is_finished(tmp_path: Path) -> None:
    found = read_timings(tmp_path / "absent")
    assert found.evaluations_per_second(3) is None
    assert found.seconds_left(3) is None
    assert found.objective_seconds == 0.0
    assert read_timings(write(tmp_path / "t", finished(-1, 1.0))).seconds_left(3) is None
    assert read_timings(write(tmp_path / "t", finished(0, 9.0))).seconds_left(3) is None


def test_the_first_failure(tmp_path: Path) -> None:
    failures = [{"kind": "failed", "t": t, "summary": f"no. {t}", "traceback": ""} for t in (3, 4)]
    assert read_timings(write(tmp_path / "t", *failures)).first_failure == "no. 3"


def test_traffic_adds_up_by_kind(tmp_path: Path) -> None:
    """A call of the server program's own has its request's kind; one without a request none."""
    calls = [
        CALL | {"sent_bytes": 10 ** (2 * i), "received_bytes": 2 * 10 ** (2 * i)} | kind
        for i, kind in enumerate(
            ({"then": "upload"}, {"request": "share"}, {"request": "upload"}, {}, {"then": "share"})
        )
    ]
    found = read_timings(write(tmp_path / "t", *calls, finished(0, 1.0)))
    assert found.traffic == {
        "upload": (1 + 10**4, 2 + 2 * 10**4),
        "share": (10**2 + 10**8, 2 * 10**2 + 2 * 10**8),
    }
