"""Figures of the papers: what they claim, how they are run, and what is compared.

Each paper has a file, ``scenarios/figures/<paper>.yaml``, with its figures by name: see
:class:`Figure` for what a figure says.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fedsim.errors import ConfigError, nearest
from fedsim.yamltext import parse_yaml


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Setting(_Part):
    """How much of a configuration is run.

    Attributes:
        seeds: as ``fedsim run --seeds`` takes them.
        set: overrides, ``key=value``.
    """

    seeds: str
    set: tuple[str, ...] = ()


class Quick(Setting):
    """A run of under three minutes: few seeds, and half of the rounds if not said otherwise."""

    seeds: str = "0-1"
    set: tuple[str, ...] = ("rounds=20",)


class Full(Setting):
    """The run that a verdict is for."""

    seeds: str = "0-9"


class Claimed(_Part):
    """A claim about two variants.

    Attributes:
        better: the variant that is claimed to be better, or as good.
        worse: the other one.
        alike: whether the claim is that they are about as good.
        metric: what the claim is about; None: the figure's metric.
    """

    better: str
    worse: str
    alike: bool = False
    metric: str | None = None


class Plotted(_Part):
    """How a figure is drawn.

    Attributes:
        kind: ``curves`` over rounds, ``tradeoff``: utility against the privacy loss, or ``sweep``:
            scores against a value that variants differ in.
        x: of a sweep: the value, a configuration key or a metric such as ``uploaded_bytes``.
        series: of a sweep: a configuration key, one line for each of its values.
        facet: a configuration key: one panel for each of its values.
        compared: whether only variants are drawn that the figure compares.
    """

    kind: Literal["curves", "tradeoff", "sweep"] = "curves"
    x: str | None = None
    series: str | None = None
    facet: str | None = None
    compared: bool = False

    @model_validator(mode="after")
    def _of_its_kind(self) -> Plotted:
        if (self.x is not None) != (self.kind == "sweep"):
            raise ValueError("expected x with kind: sweep, and only then")
        if self.series is not None and self.kind != "sweep":
            raise ValueError("expected series with kind: sweep only")
        return self


class PublishedPoints(_Part):
    """A figure's published values.

    Attributes:
        source: where they are from, and how they differ from ours.
        points: by variant and round.
    """

    source: str
    points: dict[str, dict[int, float]]


class Loss(_Part):
    """Settings whose privacy losses a figure compares; see ``fedsim privacy subsampled``."""

    agents: int
    rounds: int
    sampling_rate: float
    noise_multiplier: float


class Figure(_Part):
    """A figure of a paper, with one way: a configuration, losses, commands or what is missing.

    Attributes:
        title: what it shows.
        claim: what the paper says about it, in our words.
        note: how ours differs.
        configuration: a ready configuration.
        losses: privacy losses to compare, without a run.
        by_hand: the commands to reproduce it with, for what is compared over problems.
        waits_for: what is missing to reproduce it.
        quick: what a quick reproduction runs.
        full: what a full one runs.
        metric: as ``fedsim compare --metric`` takes it; None: the default.
        rounds: the first and last round that scores are means over; None: all but 0.
        comparisons: what is claimed.
        plot: how it is drawn.
        published: the paper's own values, if there are some.
    """

    title: str
    claim: str
    note: str | None = None
    configuration: str | None = None
    losses: tuple[Loss, ...] = ()
    by_hand: str | None = None
    waits_for: str | None = None
    quick: Quick = Field(default_factory=Quick)
    full: Full = Field(default_factory=Full)
    metric: str | None = None
    rounds: tuple[int, int] | None = None
    comparisons: tuple[Claimed, ...] = ()
    plot: Plotted = Field(default_factory=Plotted)
    published: PublishedPoints | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Figure:
        ways = (self.configuration, self.losses, self.by_hand, self.waits_for)
        if sum(map(bool, ways)) != 1:
            raise ValueError("expected one of configuration, losses, by_hand and waits_for")
        if bool(self.comparisons) != (self.configuration is not None):
            raise ValueError("expected comparisons with a configuration, and only then")
        return self

    @property
    def state(self) -> str:
        """What ``fedsim reproduce`` can do about it, in words."""
        if self.configuration is not None:
            return f"runs {self.configuration}"
        if self.losses:
            return "a table of privacy losses"
        return f"by hand: {self.by_hand}" if self.by_hand else f"waits for {self.waits_for}"


class _Paper(_Part):
    figures: dict[str, Figure]


def papers() -> dict[str, Mapping[str, Figure]]:
    """Return the figures of all papers, by paper and name."""
    files = sorted(one.name for one in _folder().iterdir() if one.name.endswith(".yaml"))
    return {name.removesuffix(".yaml"): _read(name) for name in files}


def find_figure(paper: str, figure: str) -> Figure:
    """Return a figure.

    Raises:
        ConfigError: if there is no such paper or figure; it names the nearest.
    """
    known = papers()
    if paper not in known:
        raise ConfigError(f"PAPER: expected {', '.join(known)}, got {paper!r}")
    name = figure.lower().removeprefix("figure-").removeprefix("fig.").strip()
    if name not in known[paper]:
        raise ConfigError(
            f"FIGURE: {paper} has no figure {figure!r}{nearest(name, known[paper])}; "
            f"`fedsim reproduce {paper}` lists them"
        )
    return known[paper][name]


def _read(name: str) -> Mapping[str, Figure]:
    return _Paper.model_validate(parse_yaml(_folder().joinpath(name).read_text("utf-8"))).figures


def _folder() -> Any:
    return resources.files("fedsim.scenarios").joinpath("figures")
