"""``fedsim crypto``: tables and JSON."""

from __future__ import annotations

import json

import pytest

from fedsim.cli.main import run_command


def test_bench_prints_threshold_tenseal_and_the_reference(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = "crypto bench --members 10 --support 8 --rounds 1 --quiet"
    assert run_command(arguments.split()) == 0
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines()]
    assert [row[2] for row in rows if row[:2] == ["10", "8"]] == ["threshold"]
    assert {"threshold", "TenSEAL", "reference"} <= {word for row in rows for word in row}
    assert "197,664" in text
    assert "1 rounds" in text


def test_bench_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "crypto bench --members 4 --support 2 --rounds 1 --json --quiet"
    assert run_command(arguments.split()) == 0
    found = json.loads(capsys.readouterr().out)
    (one,) = found["operations"]
    assert one["threshold"]["share_bytes"] == 5 * 24
    assert one["ckks"]["share_bytes"] == 0
    assert one["reference"] is None
    assert [row["encryption"] for row in found["rounds"]] == ["threshold", "ckks", "plain"]


def test_collusion(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "crypto collusion --members 3 --support 8 --trials 2 --quiet"
    assert run_command(arguments.split()) == 0
    text = capsys.readouterr().out
    assert "2/2" in text
    assert "All but one client together" in " ".join(text.split())
    assert run_command([*arguments.split(), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["trials"]
    assert (one["right"], one["found"], len(one["uniformity"])) == (0, 2, 2)


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ("bench --members 2", "--members"),
        ("bench --support 127", "--support"),
        ("bench --rounds 0", "--rounds"),
        ("collusion --support 0", "--support"),
        ("collusion --members 3 --withheld 4", "withheld"),
    ],
)
def test_options_are_checked(
    capsys: pytest.CaptureFixture[str], arguments: str, option: str
) -> None:
    assert run_command(["crypto", *arguments.split(), "--quiet"]) == 2
    assert option in capsys.readouterr().err
