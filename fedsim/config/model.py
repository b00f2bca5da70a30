"""The configuration model: which keys there are, checked and completed with defaults.

A configuration is a YAML file or a mapping. Unknown keys are errors that show the nearest valid
name. A resolved configuration has all defaults filled in; run folders keep it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from fedsim.config.construct import resolve_section, section_schema
from fedsim.config.schema import validate
from fedsim.config.sweeps import flattened, swept
from fedsim.config.words import misplaced_key, missing_key, places_of, short
from fedsim.errors import ConfigError, FedsimError, plain
from fedsim.resources import Resources, is_host_and_port
from fedsim.usercode.sources import UserCode

MOST_SEEDS = 10_000
MOST_ROUNDS = 1_000_000
LARGEST_SEED = 10**18 - 1
"""Seeds name folders, and are whole numbers of 64 bits in tables."""


class PrivacyConfig(BaseModel):
    """How privacy is accounted and where its noise comes from.

    Attributes:
        noise_source: ``seed`` (repeatable: a simulation, not private) or ``system``.
        accountant: the accountant that checks a budget: ``pld``, ``rdp`` or ``moments``.
        accounting: ``paper`` charges the plain noise multiplier z, ``exact`` each round's own.
        delta: δ in (0, 1), or None for N^-1.1.
        budget: the largest ε that may be spent, or None.
    """

    model_config = ConfigDict(extra="forbid")

    noise_source: Literal["seed", "system"] = "seed"
    accountant: Literal["pld", "rdp", "moments"] = "pld"
    accounting: Literal["paper", "exact"] = "paper"
    delta: float | None = Field(default=None, gt=0, lt=1)
    budget: float | None = Field(default=None, gt=0, allow_inf_nan=False)


Seconds = Annotated[float, Field(gt=0, le=1e7)]
"""A time to wait; the operating system's timers allow no more than a few months."""


class DeadlinesConfig(BaseModel):
    """How long to wait, in seconds, before something counts as hung.

    Attributes:
        evaluation: one call of an objective.
        start: Ray's start, and the start of an actor.
        answer: an actor's answer.
    """

    model_config = ConfigDict(extra="forbid")

    evaluation: Seconds = 600.0
    start: Seconds = 180.0
    answer: Seconds = 60.0


class RetryConfig(BaseModel):
    """Try a failed evaluation again, then stop.

    Attributes:
        retry: how often, at least 1.
    """

    model_config = ConfigDict(extra="forbid")

    retry: int = Field(ge=1)


Probability = Annotated[float, Field(ge=0, le=1)]


def parse_seeds(value: Any) -> Any:
    """Return a list of seeds from 3, "0-9", "1,4,7-9" or a list, which is unchanged.

    Raises:
        ConfigError: if it is anything else.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return [value]
    if not isinstance(value, str):
        if isinstance(value, (list, tuple)) and value:
            return value
        raise ConfigError(
            f"seeds: expected e.g. 3, 0-9, 1,4,7-9 or a list of seeds, got {short(value)}"
        )
    seeds: list[int] = []
    for part in value.split(","):
        first, dash, last = part.strip().partition("-")
        digits = first.isdecimal() and (last or first).isdecimal() and not (dash and not last)
        if not digits:
            raise ConfigError(f"seeds: expected e.g. 3, 0-9 or 1,4,7-9, got {value!r}")
        if max(len(first), len(last)) > len(str(LARGEST_SEED)):
            raise ConfigError(f"seeds: expected at most {LARGEST_SEED:,}, got {short(value)}")
        if int(last or first) < int(first):
            raise ConfigError(
                f"seeds: {part.strip()} is empty, its first seed is above its last; write "
                f"{last}-{first}"
            )
        if int(last or first) - int(first) >= MOST_SEEDS:
            raise ConfigError(f"seeds: expected at most {MOST_SEEDS} in one run, got {value!r}")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def named(value: Any) -> Any:
    """Return a ``scenario`` or ``method`` section: ``fts`` stands for ``{name: fts}``."""
    return {"name": value} if isinstance(value, str) else value


def _section(value: Any) -> Any:
    if not isinstance(value, (str, Mapping)):
        raise PydanticCustomError("section", "Input should be a name, or a mapping with a name")
    return named(value)


def text_of(value: Any) -> Any:
    """Return a number, a boolean or None as YAML writes it: a name may look like one."""
    if value is None or isinstance(value, bool):
        return plain(value)
    return str(value) if isinstance(value, (int, float)) else value


def _labelled(value: Any) -> Any:
    """Return variants whose labels are texts; a label without changes is the base."""
    if not isinstance(value, Mapping):
        return value
    found: dict[Any, Any] = {}
    for given, changes in value.items():
        label = text_of(given)
        if label in found:
            raise ConfigError(f"variants: two have the label {label}")
        found[label] = {} if changes is None else changes
    return found


def _address(value: str) -> str:
    """Refuse what cannot be a cluster's address."""
    if value != "auto" and not is_host_and_port(value):
        raise ConfigError(
            f"address: expected HOST:PORT or auto, got {value!r}; Ray Client (ray://) cannot be "
            "used: run fedsim on a machine of the cluster, where the run folder is kept"
        )
    return value


Section = Annotated[dict[str, Any], BeforeValidator(_section)]


class Config(BaseModel):
    """A whole configuration.

    Attributes:
        name: names the run folder; by default the scenario's name.
        scenario: ``name`` and the scenario's own settings; or only its name.
        method: ``name`` and the method's own settings; or only its name.
        rounds: queries per agent after the initial design, T.
        seeds: one job each, e.g. ``[0, 1]`` or ``0-9``.
        backend: ``serial`` (this machine, no Ray), ``ray``, or ``auto``: what takes less time.
        agents_per_actor: how many agents share one Ray actor, or ``auto``: one actor per CPU.
        address: an existing Ray cluster, or None for a private local one.
        privacy: accounting and noise.
        deadlines: how long to wait.
        on_error: what to do if an evaluation fails: ``stop`` the run, ``skip`` it (the agent
            loses a query), or ``{retry: n}``: try it n more times, then stop.
        resources: run every evaluation as a Ray task with these resources; None: as the
            objectives declare. The serial backend ignores them.
        availability: the probability that an agent takes part in a round: one, or one per agent.
        variants: the variants to compare: overrides by label, each a curve in the picture.
        grid: values by dotted key, e.g. ``{rounds: [10, 20]}``: every value with every other, and
            with every variant. A resolved configuration has the variants that it stands for.
        zip: the same, but the lists are read side by side.
        noise_control: run each private variant again with its messages replaced by noise.
        transcript: record everything that the server receives.
    """

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, BeforeValidator(text_of)] = ""
    scenario: Section
    method: Section
    rounds: int = Field(ge=1, le=MOST_ROUNDS)
    seeds: Annotated[
        list[Annotated[int, Field(ge=0, le=LARGEST_SEED)]],
        BeforeValidator(parse_seeds),
        Field(min_length=1),
    ] = [0]
    backend: Literal["auto", "serial", "ray"] = "auto"
    agents_per_actor: Literal["auto"] | Annotated[int, Field(ge=1)] = "auto"
    address: Annotated[str, AfterValidator(_address)] | None = None
    privacy: PrivacyConfig = PrivacyConfig()
    deadlines: DeadlinesConfig = DeadlinesConfig()
    on_error: Literal["stop", "skip"] | RetryConfig = "stop"
    resources: Resources | None = None
    availability: Probability | Annotated[list[Probability], Field(min_length=1)] = 1.0
    variants: Annotated[dict[str, dict[str, Any]], BeforeValidator(_labelled)] = {}
    grid: Annotated[dict[str, Any], BeforeValidator(flattened)] = {}
    zip: Annotated[dict[str, Any], BeforeValidator(flattened)] = {}
    noise_control: bool = False
    transcript: bool = False


def parse_config(raw: Mapping[str, Any], code: UserCode) -> Config:
    """Return a checked configuration whose sections have all defaults filled in.

    ``grid`` and ``zip`` become variants, which are kept as overrides; see
    :func:`fedsim.config.variants.expand_variants`.

    Raises:
        ConfigError: for the first error found.
    """
    _check_places(raw, code)
    config = validate(Config, raw, "")
    for section in ("scenario", "method"):
        given = getattr(config, section)
        name = given.get("name")
        if name is None:
            beside = {key: value for key, value in given.items() if key != "name"}
            raise ConfigError(missing_key(section, "name", beside))
        if not isinstance(name, str):
            raise ConfigError(f"{section}.name: expected a name, got {short(name)}")
    if not config.name:
        config.name = str(config.scenario["name"]).partition(":")[2] or config.scenario["name"]
    config.variants = swept(config.variants, config.grid, config.zip)
    config.grid, config.zip = {}, {}
    if len(set(config.seeds)) != len(config.seeds):
        raise ConfigError(f"seeds: expected different seeds, got {config.seeds}")
    config.scenario = resolve_section("scenario", config.scenario, code)
    config.method = resolve_section("method", config.method, code)
    return config


def _check_places(raw: Mapping[str, Any], code: UserCode) -> None:
    """Refuse a key at the top that belongs into a section."""
    for key in (key for key in raw if isinstance(key, str) and key not in Config.model_fields):
        places = places_of(key, Config)
        for section in ("scenario", "method"):
            given = named(raw.get(section))
            if isinstance(given, Mapping) and isinstance(given.get("name"), str):
                with suppress(FedsimError):  # the section's own mistakes come later
                    schema = section_schema(section, given["name"], code)
                    places += places_of(key, schema, section)
        if places:
            raise ConfigError(misplaced_key(key, raw[key], places))


def delta_of(config: Config, agents: int) -> float:
    """Return the δ at which a configuration reports ε."""
    return config.privacy.delta or math.pow(agents, -1.1)


def private_delta_of(config: Config, agents: int) -> float:
    """Return the δ of a configuration that is private.

    Raises:
        ConfigError: if it is the default of a single agent, which is 1.
    """
    if config.privacy.delta is None and agents < 2:
        raise ConfigError(
            "privacy.delta: the default N^-1.1 is 1 for one agent; set it to a number below 1"
        )
    return delta_of(config, agents)
