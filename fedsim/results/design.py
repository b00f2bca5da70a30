"""Which variants are the same method on different problems.

A problem is told by configuration keys: those given, or all of the scenario's that change. Methods
are told by those other keys that change among the variants of one problem; a key that only changes
from problem to problem, such as the number of rounds, belongs to the problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedsim.errors import ConfigError, nearest, of_option
from fedsim.keys import by_key, ends, short_names, value_text
from fedsim.results.entrants import Entrant

SECTIONS = ("scenario", "method", "rounds", "privacy", "availability")
"""The keys of a configuration in which variants may differ."""

NOT_SET = "not set"
METHOD, SCENARIO = "method.name", "scenario.name"

Settings = Mapping[str, str]
"""A variant's values as texts, by dotted key."""


@dataclass(frozen=True)
class Design:
    """Variants as a table of problems and methods.

    Attributes:
        problems: the problems' names, in order.
        methods: the methods' names, in order.
        cells: the variants of each pair of a problem and a method; several of one pair have
            different seeds. Pairs without any are missing.
        keys: what tells problems apart.
        notes: what a reader must know.
    """

    problems: tuple[str, ...]
    methods: tuple[str, ...]
    cells: Mapping[tuple[str, str], tuple[Entrant, ...]]
    keys: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def comparable(self) -> bool:
        """Whether two methods have two problems in common."""
        shared = [{p for p in self.problems if (p, m) in self.cells} for m in self.methods]
        return any(len(a & b) > 1 for i, a in enumerate(shared) for b in shared[:i])


def arranged(
    found: Sequence[Entrant],
    *,
    problem: Sequence[str] = (),
    method: Sequence[str] = (),
    named: bool = False,
) -> Design:
    """Arrange variants by problem and method.

    Args:
        found: the variants.
        problem: keys that tell problems apart, or groups of keys such as ``scenario``; none: all
            of the scenario's that change.
        method: keys that tell methods apart; none: what changes within a problem.
        named: whether the user named the runs: then these are different methods.

    Raises:
        ConfigError: if no variant has a key, or two variants of one problem, method and seed are
            not told apart.
        RunFolderError: if a configuration is damaged.
    """
    settings = {one.label: _settings(one) for one in found}
    known = list(dict.fromkeys(key for own in settings.values() for key in own))
    changing = [key for key in known if len(_values(key, settings.values())) > 1]
    keys = _chosen("problem", problem, known) or [k for k in changing if k.startswith("scenario.")]
    told = {label: _told(keys, own) for label, own in settings.items()}
    of_methods = _chosen("method", method, known) or _within(changing, keys, told, settings)
    identities = _identities(found, told, of_methods, settings, named=named)
    problems = _problem_names(told, keys, settings)
    others = [key for key in known if key not in of_methods]
    methods = _method_names(found, identities, of_methods, others, settings, named=named)
    cells: dict[tuple[str, str], tuple[Entrant, ...]] = {}
    for one in found:
        place = problems[one.label], methods[one.label]
        cells[place] = (*cells.get(place, ()), one)
    aside = [k for k in changing if k not in {*keys, *of_methods} and not k.startswith("scenario.")]
    notes = [f"{key} changes from problem to problem" for key in aside] if not method else []
    in_order = tuple(dict.fromkeys(problems.values())), tuple(dict.fromkeys(methods.values()))
    return Design(*in_order, cells, tuple(keys), tuple(notes))


def _settings(one: Entrant) -> Settings:
    config = one.seeds[0].configuration()
    chosen = {key: config[key] for key in SECTIONS if key in config}
    return {key: value_text(value) for key, value in by_key(chosen).items()}


def _values(key: str, settings: Iterable[Settings]) -> set[str]:
    return {own.get(key, NOT_SET) for own in settings}


def _told(keys: Sequence[str], own: Settings) -> tuple[str, ...]:
    return tuple(own.get(key, NOT_SET) for key in keys)


def _chosen(option: str, given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the keys that were asked for; of a group, all of it."""
    chosen: list[str] = []
    for key in given:
        inside = [one for one in known if one == key or one.startswith(f"{key}.")]
        if not inside:
            raise of_option(
                f"--{option}",
                ConfigError(f"{option}: no variant has the key {key!r}{nearest(key, known)}"),
            )
        chosen += [one for one in inside if one not in chosen]
    return chosen


def _within(
    changing: Sequence[str],
    keys: Sequence[str],
    told: Mapping[str, tuple[str, ...]],
    settings: Mapping[str, Settings],
) -> list[str]:
    """Return the keys, besides the problem's, that change within some problem."""
    found = []
    for key in changing:
        groups: dict[tuple[str, ...], set[str]] = {}
        for label, problem in told.items():
            groups.setdefault(problem, set()).add(settings[label].get(key, NOT_SET))
        within = any(len(values) > 1 for values in groups.values())
        if key not in keys and (within or key == METHOD):
            found.append(key)
    return found


def _identities(
    found: Sequence[Entrant],
    told: Mapping[str, tuple[str, ...]],
    keys: Sequence[str],
    settings: Mapping[str, Settings],
    *,
    named: bool,
) -> dict[str, tuple[str, ...]]:
    """Return what tells each variant's method: settings, and if need be, its run."""
    own = {one.label: _told(keys, settings[one.label]) for one in found}
    by_run = {one.label: (*own[one.label], one.run_name) for one in found}
    if not named and _twice(found, told, own) is None:
        return own
    twice = _twice(found, told, by_run)
    if twice is not None:
        raise ConfigError(
            f"compare: {twice[0]} and {twice[1]} would be the same method on the same problem; "
            "tell methods apart by more keys (--method), or problems (--problem)"
        )
    return by_run


def _twice(
    found: Sequence[Entrant],
    told: Mapping[str, tuple[str, ...]],
    identities: Mapping[str, tuple[str, ...]],
) -> tuple[str, str] | None:
    """Return two variants that have the same problem, method and some seed."""
    known: dict[tuple[object, ...], str] = {}
    for one in found:
        for seed in one.seeds:
            place = (told[one.label], identities[one.label], seed.seed)
            first = known.setdefault(place, one.label)
            if first != one.label:
                return first, one.label
    return None


def _problem_names(
    told: Mapping[str, tuple[str, ...]], keys: Sequence[str], settings: Mapping[str, Settings]
) -> dict[str, str]:
    """Return each variant's problem: the value of one key, if that is enough."""
    problems = set(told.values())
    for key in keys:
        values = {
            label: own.get(key, own.get(SCENARIO, NOT_SET)) for label, own in settings.items()
        }
        pairs = {(told[label], value) for label, value in values.items()}
        if len(pairs) == len({value for _, value in pairs}) == len(problems):
            return values
    short = short_names(keys)
    return {
        label: ", ".join(f"{short[key]}={own[key]}" for key in keys if key in own) or "all"
        for label, own in settings.items()
    }


def _method_names(
    found: Sequence[Entrant],
    identities: Mapping[str, tuple[str, ...]],
    keys: Sequence[str],
    others: Sequence[str],
    settings: Mapping[str, Settings],
    *,
    named: bool,
) -> dict[str, str]:
    """Return what each variant's method is called: as its label is, without the problem."""
    labels: dict[tuple[str, ...], set[str]] = {}
    told: dict[tuple[str, ...], str] = {}
    for one in found:
        own, identity = settings[one.label], identities[one.label]
        labels.setdefault(identity, set()).add(_without(one.variant, others, own))
        told[identity] = _from_settings(keys, own)
    names = {i: next(iter(rests)) if len(rests) == 1 else "" for i, rests in labels.items()}
    names = {identity: name or told[identity] for identity, name in names.items()}
    if len(identities[found[0].label]) > len(keys):  # runs tell them apart, too
        runs = [identity[-1] for identity in names]
        alone = {run for run in runs if named and runs.count(run) == 1}
        names = {i: i[-1] if i[-1] in alone else f"{n} ({i[-1]})" for i, n in names.items()}
    if len(set(names.values())) < len(names):
        names = {i: ", ".join((told[i], *i[len(keys) :])) for i in names}
    return {one.label: names[identities[one.label]] for one in found}


def _from_settings(keys: Sequence[str], own: Settings) -> str:
    short = short_names(keys)
    parts = [f"{short[key]}={own.get(key, NOT_SET)}" for key in keys if key != METHOD]
    if METHOD in keys or not parts:
        parts.insert(0, own.get(METHOD, "all"))
    return ", ".join(parts)


def _without(label: str, keys: Sequence[str], own: Settings) -> str:
    """Return a label without its parts, such as ``function=F1``, that name other keys."""
    parts = {
        f"{end}={own[key]}"
        for key in keys
        if key in own
        for end in {*ends(key), *ends(key.removesuffix(".name"))}
    }
    named = {f"method={own.get(METHOD)}": own.get(METHOD, "")}
    return ", ".join(named.get(part, part) for part in label.split(", ") if part not in parts)
