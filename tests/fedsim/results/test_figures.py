"""The figures of the papers: each can be run, and compares what its configuration has."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from fedsim.config.experiment import prepare
from fedsim.errors import ConfigError
from fedsim.keys import by_key
from fedsim.results.figure_losses import compared_losses
from fedsim.results.figures import Figure, Loss, find_figure, papers
from fedsim.results.metrics import METRICS

ALL = [(paper, name) for paper, own in papers().items() for name in own]
RUN = [(paper, name) for paper, name in ALL if papers()[paper][name].configuration]

CLAIM: dict[str, Any] = {"title": "a", "claim": "b"}
COMPARED = [{"better": "x", "worse": "y"}]


def test_the_papers_and_how_many_of_their_figures_run() -> None:
    assert list(papers()) == ["dp-fts-de", "fbo-fedgp", "fts"]
    names = [name for paper, name in RUN if paper == "dp-fts-de"]
    assert names == ["2a", "2b", "2c", "2d", "3a", "3d", "4", "5", "6", "7", "9", "10", "12a"]
    names = [name for paper, name in RUN if paper == "fts"]
    assert names == ["1a", "1b", "1c", "learned", "2a", "3a", "3d", "4a"]


@pytest.mark.parametrize(("paper", "name"), RUN)
def test_a_figure_compares_and_draws_what_its_configuration_has(paper: str, name: str) -> None:
    figure = papers()[paper][name]
    for setting in (figure.quick, figure.full):
        overrides = [*setting.set, f'seeds="{setting.seeds}"']
        experiment = prepare(figure.configuration, overrides)
        labels = set(experiment.variants)
        assert {label for one in figure.comparisons for label in (one.better, one.worse)} <= labels
        assert figure.published is None or set(figure.published.points) <= labels
        if figure.rounds is not None and setting is figure.full:
            assert 0 <= figure.rounds[0] <= figure.rounds[1] <= experiment.config.rounds
        for key in filter(None, (figure.plot.x, figure.plot.series)):
            settings = by_key(next(iter(experiment.variants.values())).model_dump(mode="json"))
            assert key in settings or key in METRICS
        if figure.plot.facet is not None:
            keys = by_key(experiment.config.model_dump(mode="json"))
            assert figure.plot.facet in keys or figure.plot.facet.startswith("scenario.")
        assert len(experiment.config.seeds) >= 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "one of configuration, losses, by_hand and waits_for"),
        ({"configuration": "x", "waits_for": "y"}, "one of configuration"),
        ({"configuration": "x"}, "expected comparisons with a configuration"),
        ({"waits_for": "x", "comparisons": COMPARED}, "expected comparisons with a configuration"),
        ({"waits_for": "x", "plots": {}}, "plots"),
        ({"waits_for": "x", "plot": {"kind": "sweep"}}, "expected x with kind: sweep"),
        ({"waits_for": "x", "plot": {"x": "rounds"}}, "expected x with kind: sweep"),
        ({"waits_for": "x", "plot": {"series": "rounds"}}, "expected series with kind: sweep"),
    ],
)
def test_figures_that_are_none(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Figure.model_validate({**CLAIM, **given})


def test_a_figure_is_found_by_its_name() -> None:
    assert find_figure("dp-fts-de", "Fig. 2B") == find_figure("dp-fts-de", "2b")
    with pytest.raises(ConfigError, match=r"dp-fts-de has no figure '12'; did you mean '12b'"):
        find_figure("dp-fts-de", "12")
    with pytest.raises(ConfigError, match="expected dp-fts-de, fbo-fedgp, fts, got 'dp'"):
        find_figure("dp", "2b")


def test_losses_of_figure_11_are_those_of_the_page() -> None:
    setting = Loss(agents=29, rounds=60, sampling_rate=0.35, noise_multiplier=1.0)
    (found,) = compared_losses([setting])
    expected = {
        "Poisson, moments": 15.17,
        "Poisson, rdp": 13.50,
        "Poisson, pld": 10.38,
        "fixed size, rdp": 160.6,
        "fixed size, pld": 47.17,
    }
    assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-3)
