"""``fedsim privacy plan``."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from fedsim.cli.app import app
from fedsim.cli.session import Session
from fedsim.config.construct import build_method, build_scenario, planned_costs
from fedsim.config.experiment import prepare
from fedsim.errors import ConfigError
from fedsim.privacy.accountants import make_accountant, privacy_loss
from fedsim.privacy.ledger import Ledger
from fedsim.yamltext import parse_yaml
from tests.util.strict import strict_json

OPTIONS = {"--agents": "20", "--rounds": "10", "--epsilon": "2", "--delta": "1e-5"}


def invoke(options: dict[str, str], *flags: str) -> Any:
    arguments = [word for pair in options.items() for word in pair]
    return CliRunner().invoke(app, ["privacy", "plan", *arguments, *flags], obj=Session())


def lines(text: str) -> list[dict[str, Any]]:
    """Return the sections that are printed to be put into a configuration."""
    found = [line.partition("  ")[2] for line in text.splitlines() if "  method: {" in line]
    (privacy,) = (line for line in text.splitlines() if line.startswith("beside it: "))
    beside = parse_yaml(privacy.removeprefix("beside it: "))
    return [{**parse_yaml(line), **beside} for line in found]


def test_every_line_runs_at_the_target() -> None:
    text = invoke(OPTIONS | {"--features": "30"}).stdout
    sections = lines(text)
    assert len(sections) == 7
    for section in sections:
        raw = {"name": "t", "scenario": {"name": "synthetic", "agents": 20}, "rounds": 10}
        experiment = prepare({**raw, **section})
        (variant,) = experiment.variants.values()
        spec = experiment.spec(variant, 0)
        ledger = Ledger.from_events(planned_costs(build_method(spec, build_scenario(spec))))
        loss = privacy_loss(ledger, variant.privacy.delta or 0.0, make_accountant("pld"))
        assert loss.epsilon <= 2.0
        assert loss.epsilon == pytest.approx(2.0, rel=1e-3)


def test_json_has_what_the_table_has() -> None:
    record = strict_json(invoke(OPTIONS, "--json").stdout)
    assert record["assumed"] == {"features": 100, "norm": 2.0, "agreement": 0.5}
    assert (record["delta"], record["accountant"]) == (1e-5, "pld")
    assert record["neighbouring_relation"] == "zero-out (add-or-remove numbers)"
    assert record["sampling"] == "Poisson"
    found = record["plans"]
    assert [one["config"]["method"] for one in found] == [
        section["method"] for section in lines(invoke(OPTIONS).stdout)
    ]
    ratios = [one["shared_to_noise"] for one in found]
    assert ratios == sorted(ratios, reverse=True)
    assert (found[0]["method"], found[0]["releases"]) == ("dp-prior", 1)


def test_the_table_says_what_it_assumes() -> None:
    text = " ".join(invoke(OPTIONS | {"--norm": "1.5", "--agreement": "0.25"}).stdout.split())
    for words in ("the norm 1.5", "mean cosine of 0.25", "zero-out", "Poisson", "delta 1e-05",
                  "loss distributions (pld)"):  # fmt: skip
        assert words in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--agents": "1"}, "--agents: expected at least 2"),
        ({"--rounds": "0"}, "--rounds: expected at least 1"),
        ({"--epsilon": "0"}, "--epsilon: expected a finite number above 0"),
        ({"--delta": "2"}, "--delta: expected a number above 0 and below 1"),
        ({"--features": "0"}, "--features: expected at least 1"),
        ({"--norm": "0"}, "--norm: expected a finite number above 0"),
        ({"--agreement": "2"}, "--agreement: expected 0 to 1"),
        ({"--accountant": "pdl"}, "--accountant: unknown name 'pdl'; did you mean 'pld'"),
    ],
)
def test_bad_options_are_named(changes: dict[str, str], message: str) -> None:
    found = invoke(OPTIONS | changes).exception
    assert isinstance(found, ConfigError)
    assert message in str(found)


@pytest.mark.parametrize("changes", [{}, {"--epsilon": "0.01"}, {"--rounds": "1000"}])
def test_the_table_fits_a_usual_terminal(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    title, head, *rest = invoke(OPTIONS | changes).stdout.splitlines()
    rows = rest[:7]
    names = ["method", "messages", "shared", "whole", "releases", "q", "z", "S", "P", "ε"]
    assert head.split() == names
    assert max(map(len, (title, head, *rows))) <= 80
    for place, row in enumerate(rows, 1):
        number, method, messages, *numbers = row.split()
        assert (number, method in ("dp-prior", "dp-fts-de")) == (str(place), True)
        assert messages in ("means", "samples")
        assert len(list(map(float, numbers))) == 8
