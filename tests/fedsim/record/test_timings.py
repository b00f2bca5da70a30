"""Reading timings.jsonl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedsim.record.timings import open_timings, read_timings


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


def test_a_round_that_was_done_again_counts_once(tmp_path: Path) -> None:
    lines = [finished(0, 4.0), finished(1, 0.5), finished(1, 2.0), finished(0, 1.0)]
    found = read_timings(write(tmp_path / "t", *lines))
    assert found.evaluations_per_second(12) == 2.0
    assert found.evaluations_per_second(12, last=0) == 3.0


def test_it_is_known_whose_they_are_and_whether_they_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for lines in ([CALL, finished(0, 4.0)], [finished(1, 2.0)]):  # a run, and its resume
        writer = open_timings(path, "mine")
        for line in lines:
            writer.append(line)
        writer.close()
    found = read_timings(path, "mine")
    assert found == read_timings(path)  # the manifest may be lost
    assert (found.lost(2), found.lost(3)) == ("", "lacks the times of some rounds")
    other = read_timings(path, "other")
    assert (other.round_seconds, other.objective_seconds, other.first_failure) == ((), 0.0, None)
    assert other.lost(0) == "belongs to another seed, or to another run"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    assert read_timings(path, "other") == found  # as earlier versions wrote it


def test_bytes_of_rounds_count_once(tmp_path: Path) -> None:
    def call(number: int, request: str | None, size: int) -> dict[str, Any]:
        sizes = {"sent_bytes": size, "received_bytes": 10 * size}
        return CALL | {"call": number, "request": request} | sizes

    lines = [
        *(call(0, None, 1), call(1, None, 2), finished(-1, 1.0)),
        *(call(2, None, 5), call(2, "share", 7), call(2, "share", 7), finished(0, 1.0)),
        *(call(3, None, 100), call(3, "share", 100), call(4, None, 100)),  # interrupted
        *(call(3, None, 3), call(3, "share", 4), call(4, None, 6), finished(1, 1.0)),
        *(call(3, None, 3), call(3, "share", 4), call(4, None, 6), finished(1, 1.0)),  # done again
        call(5, None, 100),  # not finished
    ]
    found = read_timings(write(tmp_path / "t", *lines))
    assert found.bytes_by_round == {-1: (3, 30), 0: (19, 190), 1: (13, 130)}
