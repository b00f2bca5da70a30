from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from fedsim.cli import privacy
from fedsim.cli.privacy import privacy_app
from fedsim.cli.session import Session
from fedsim.errors import ConfigError
from tests.util.processes import loaded_by
from tests.util.strict import strict_json

SUBSAMPLED = {
    "--agents": "200",
    "--sampling-rate": "0.25",
    "--noise-multiplier": "1.0",
    "--rounds": "40",
}
CALIBRATE = {"--agents": "200", "--sampling-rate": "0.25", "--rounds": "40", "--epsilon": "4"}


def invoke(command: str, options: dict[str, str], *flags: str) -> Any:
    arguments = [word for pair in options.items() for word in pair]
    return CliRunner().invoke(privacy_app, [command, *arguments, *flags], obj=Session())


def test_subsampled_json() -> None:
    result = invoke("subsampled", SUBSAMPLED, "--json")
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    record = json.loads(result.stdout)
    assert record["delta"] == pytest.approx(200**-1.1, rel=1e-12)
    assert record["moments"] == pytest.approx(9.9085, abs=1e-4)
    assert record["rdp"] == pytest.approx(8.4061, abs=1e-4)
    assert record["pld"] == pytest.approx(7.0538, abs=1e-4)
    assert set(record["delta_1e-5"]) == {"rdp", "pld"}
    assert record["delta_1e-5"]["rdp"] == pytest.approx(12.60, abs=5e-3)
    assert record["delta_1e-5"]["pld"] == pytest.approx(11.28, abs=5e-3)


def test_samples_of_fixed_size() -> None:
    options = {"--agents": "29", "--sampling-rate": "0.35", "--noise-multiplier": "1"}
    options |= {"--rounds": "60", "--sampling": "fixed"}
    record = strict_json(invoke("subsampled", options, "--json").stdout)
    assert record["pld"] == pytest.approx(47.17, abs=5e-3)
    assert record["rdp"] == pytest.approx(160.6, abs=0.05)
    assert "moments" not in record
    assert (record["neighbouring_relation"], record["sampling"]) == ("replace-one", "fixed-size")
    text = " ".join(invoke("subsampled", options).stdout.split())
    for words in ("47.172", "replace-one", "fixed-size", "any others", "without replacement"):
        assert words in text
    assert "moments" not in text
    del options["--noise-multiplier"]
    found = strict_json(invoke("calibrate", options | {"--epsilon": "11.73"}, "--json").stdout)
    assert found["noise_multiplier"] == pytest.approx(2.0, abs=1e-3)
    assert found["neighbouring_relation"] == "replace-one"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--sampling": "fix"}, "--sampling: unknown name 'fix'; did you mean 'fixed'"),
        ({"--sampling": "fixed", "--sampling-rate": "0.001"}, "at least 1/200, so that a sample"),
    ],
)
def test_bad_samplings_are_named(changes: dict[str, str], message: str) -> None:
    found = invoke("subsampled", SUBSAMPLED | changes).exception
    assert isinstance(found, ConfigError)
    assert message in str(found)


def test_subsampled_with_another_delta() -> None:
    record = json.loads(invoke("subsampled", SUBSAMPLED | {"--delta": "1e-5"}, "--json").stdout)
    assert record["delta"] == 1e-5
    assert record["pld"] == record["delta_1e-5"]["pld"]


def test_subsampled_table_says_what_it_shows() -> None:
    result = invoke("subsampled", SUBSAMPLED)
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    for words in ("9.9085", "8.4061", "7.0538", "11.284", "moments", "rdp", "pld", "0.002944",
                  "1e-05", "zero-out", "Poisson"):  # fmt: skip
        assert words in text


def test_calibrate_json() -> None:
    options = CALIBRATE | {"--accountant": "moments"}
    record = json.loads(invoke("calibrate", options, "--json").stdout)
    assert record["found"] == "noise_multiplier"
    assert 1.5 < record["noise_multiplier"] < 2  # 1.4020 with pld
    assert record["sampling_rate"] == 0.25
    assert record["rounds"] == 40
    assert record["epsilon"] == pytest.approx(4, rel=1e-4)
    assert record["epsilon"] <= 4
    assert record["delta"] == pytest.approx(200**-1.1, rel=1e-12)
    assert record["accountant"] == "moments"


def test_calibrate_rounds_in_words() -> None:
    options = {k: v for k, v in CALIBRATE.items() if k != "--rounds"}
    result = invoke("calibrate", options | {"--noise-multiplier": "1"})
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert text.startswith("--rounds 14 costs epsilon 3.88")
    assert "pld" in text
    assert "zero-out" in text


def test_tiny_losses_keep_their_digits() -> None:
    options = {"--agents": "9", "--sampling-rate": "1e-6", "--noise-multiplier": "50"}
    text = invoke("subsampled", options | {"--rounds": "9", "--delta": "1e-9"}).stdout
    record = strict_json(
        invoke("subsampled", options | {"--rounds": "9", "--delta": "1e-9"}, "--json").stdout
    )
    assert 0 < record["pld"] < 1e-5
    assert f"{record['pld']:.4e}".split("e")[0].rstrip("0") in text


@pytest.mark.parametrize("multiplier", ["1e-7", "1e-300"])
def test_an_infinite_loss_is_valid_json_and_says_so(multiplier: str) -> None:
    options = SUBSAMPLED | {"--noise-multiplier": multiplier}
    record = strict_json(invoke("subsampled", options, "--json").stdout)
    assert record["pld"] is record["rdp"] is record["moments"] is None
    assert "epsilon is infinite" in record["infinite"]
    assert record["pld_source"] == "no noise"
    text = " ".join(invoke("subsampled", options).stdout.split())
    assert "epsilon is infinite" in text
    assert "infinite" not in strict_json(invoke("subsampled", SUBSAMPLED, "--json").stdout)


def test_a_long_calibration_tells_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy, "_SECONDS_BETWEEN_LINES", 0.0)
    result = invoke("calibrate", CALIBRATE | {"--accountant": "moments"}, "--json")
    assert result.stdout.count("\n") == 1
    strict_json(result.stdout)
    lines = result.stderr.splitlines()
    assert 3 < len(lines) <= 40
    assert lines[0].startswith("trial 1: --noise-multiplier ")
    assert " costs epsilon " in lines[0]
    monkeypatch.setattr(privacy, "_SECONDS_BETWEEN_LINES", 1e9)
    quick = invoke("calibrate", CALIBRATE | {"--accountant": "moments"}, "--json")
    assert quick.stderr == ""
    assert quick.stdout == result.stdout
    monkeypatch.setattr(privacy, "_SECONDS_BETWEEN_LINES", 0.0)
    quiet = invoke("calibrate", CALIBRATE | {"--accountant": "moments"}, "--json", "--quiet")
    assert quiet.stderr == ""


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--agents", "1"),
        ("--sampling-rate", "0"),
        ("--sampling-rate", "1.5"),
        ("--sampling-rate", "nan"),
        ("--noise-multiplier", "0"),
        ("--noise-multiplier", "inf"),
        ("--rounds", "0"),
        ("--delta", "1"),
        ("--delta", "nan"),
    ],
)
def test_bad_values_name_the_option(option: str, value: str) -> None:
    result = invoke("subsampled", SUBSAMPLED | {option: value})
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception).startswith(f"{option}: expected")
    if option not in ("--agents", "--delta"):
        result = invoke("calibrate", CALIBRATE | {option: value})
        assert str(result.exception).startswith(f"{option}: expected")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (CALIBRATE | {"--noise-multiplier": "1"}, "expected exactly one"),
        ({"--agents": "200", "--epsilon": "4", "--rounds": "4"}, "expected exactly one"),
        (CALIBRATE | {"--epsilon": "0"}, "--epsilon: expected"),
        (CALIBRATE | {"--accountant": "pdl"}, "did you mean 'pld'"),
    ],
)
def test_bad_calibrations(options: dict[str, str], message: str) -> None:
    result = invoke("calibrate", options)
    assert isinstance(result.exception, ConfigError)
    assert message in str(result.exception)


@pytest.mark.heavy
def test_dp_accounting_is_loaded_only_when_it_counts() -> None:
    code = "import fedsim.cli.privacy, fedsim.privacy.mechanism, fedsim.privacy.budget"
    assert not {"dp_accounting", "ray"} & loaded_by(code)
