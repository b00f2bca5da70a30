"""Which variants are the same method on different problems.

A problem is told by configuration keys: those given, or all of the scenario's that change. Methods
are told by those other keys that change among the variants of one problem; a key that only changes
from problem to problem, such as the number of rounds, belongs to the problem.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedsim.errors import ConfigError, nearest, of_option
from fedsim.keys import by_key, ends, short_names, value_text
from fedsim.results.entrants import Entrant

SECTIONS = ("scenario", "method", "rounds", "privacy", "availability")
"""The keys of a configuration in which variants may differ."""

NOT_SET = "not set"
METHOD, SCENARIO = "method.name", "scenario.name"


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


@dataclass(frozen=True)
class _Variant:
    """A variant and its settings.

    Attributes:
        entrant: the variant.
        settings: its values as texts, by dotted key.
    """

    entrant: Entrant
    settings: Mapping[str, str]

    def value(self, key: str) -> str:
        return self.settings.get(key, NOT_SET)

    def values(self, keys: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self.value, keys))


@dataclass(frozen=True)
class _Method:
    """What tells a method.

    Attributes:
        values: of the keys that tell methods apart.
        run: the name of its run, or None if runs do not tell methods apart.
    """

    values: tuple[str, ...]
    run: str | None


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
    variants = [_Variant(one, _settings_of(one)) for one in found]
    keys = list(dict.fromkeys(key for variant in variants for key in variant.settings))
    changing = [key for key in keys if len({variant.value(key) for variant in variants}) > 1]
    of_scenario = [key for key in changing if key.startswith("scenario.")]
    problem_keys = _chosen("problem", problem, keys) or of_scenario
    others = [key for key in changing if key not in problem_keys]
    method_keys = _chosen("method", method, keys) or [
        key for key in others if key == METHOD or _changes_within(variants, problem_keys, key)
    ]
    by_run = _runs_tell_methods(variants, [*problem_keys, *method_keys], named=named)
    methods = [
        _Method(one.values(method_keys), one.entrant.run_name if by_run else None)
        for one in variants
    ]
    problem_names = _problem_names(variants, problem_keys)
    of_others = [key for key in keys if key not in method_keys]
    method_names = _method_names(variants, methods, method_keys, of_others, named=named)
    cells: dict[tuple[str, str], tuple[Entrant, ...]] = {}
    for one, its_method in zip(variants, methods, strict=True):
        place = problem_names[one.values(problem_keys)], method_names[its_method]
        cells[place] = (*cells.get(place, ()), one.entrant)
    aside = [key for key in others if key not in {*method_keys, *of_scenario}]
    return Design(
        problems=tuple(dict.fromkeys(name for name, _ in cells)),
        methods=tuple(dict.fromkeys(name for _, name in cells)),
        cells=cells,
        keys=tuple(problem_keys),
        notes=() if method else tuple(f"{key} changes from problem to problem" for key in aside),
    )


def _settings_of(one: Entrant) -> Mapping[str, str]:
    config = one.seeds[0].configuration()
    chosen = {key: config[key] for key in SECTIONS if key in config}
    return {key: value_text(value) for key, value in by_key(chosen).items()}


def _chosen(option: str, given: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Return the keys that were asked for; of a group, all of it."""
    chosen: list[str] = []
    for key in given:
        inside = [one for one in keys if one == key or one.startswith(f"{key}.")]
        if not inside:
            raise of_option(
                f"--{option}",
                ConfigError(f"{option}: no variant has the key {key!r}{nearest(key, keys)}"),
            )
        chosen += [one for one in inside if one not in chosen]
    return chosen


def _changes_within(variants: Sequence[_Variant], problem_keys: Sequence[str], key: str) -> bool:
    """Return whether a key changes among the variants of some problem."""
    pairs = {(one.values(problem_keys), one.value(key)) for one in variants}
    return len(pairs) > len({problem for problem, _ in pairs})


def _runs_tell_methods(variants: Sequence[_Variant], keys: Sequence[str], *, named: bool) -> bool:
    """Return whether methods are told apart by their runs, too.

    Args:
        variants: the variants.
        keys: those of problems and of methods.
        named: whether the user named the runs.

    Raises:
        ConfigError: if even that does not tell them apart.
    """
    if not named and _alike(variants, keys, by_run=False) is None:
        return False
    alike = _alike(variants, keys, by_run=True)
    if alike is not None:
        raise ConfigError(
            f"compare: {alike[0]} and {alike[1]} would be the same method on the same problem; "
            "tell methods apart by more keys (--method), or problems (--problem)"
        )
    return True


def _alike(
    variants: Sequence[_Variant], keys: Sequence[str], *, by_run: bool
) -> tuple[str, str] | None:
    """Return the labels of two variants with equal values, some seed and, by run, their run."""
    known: dict[tuple[object, ...], str] = {}
    for one in variants:
        label, run = one.entrant.label, one.entrant.run_name if by_run else None
        for seed in one.entrant.seeds:
            first = known.setdefault((one.values(keys), run, seed.seed), label)
            if first != label:
                return first, label
    return None


def _problem_names(variants: Sequence[_Variant], keys: Sequence[str]) -> dict[tuple[str, ...], str]:
    """Return what problems are called, by their values: one key's value, if that is enough."""
    problems = {one.values(keys): one.settings for one in variants}
    for key in keys:
        pairs = {(one.values(keys), one.settings.get(key, one.value(SCENARIO))) for one in variants}
        if len(pairs) == len({name for _, name in pairs}) == len(problems):
            return dict(pairs)
    short = short_names(keys)
    return {
        values: ", ".join(f"{short[key]}={own[key]}" for key in keys if key in own) or "all"
        for values, own in problems.items()
    }


def _method_names(
    variants: Sequence[_Variant],
    methods: Sequence[_Method],
    keys: Sequence[str],
    others: Sequence[str],
    *,
    named: bool,
) -> dict[_Method, str]:
    """Return what methods are called: as their variants' labels are, without the problem.

    Args:
        variants: the variants.
        methods: their methods.
        keys: those that tell methods apart.
        others: all others.
        named: whether the user named the runs: a run with one method then names it.
    """
    labels: dict[_Method, set[str]] = {}
    settings: dict[_Method, str] = {}
    for one, method in zip(variants, methods, strict=True):
        labels.setdefault(method, set()).add(_label_without(one, others))
        settings[method] = _name_by_settings(one, keys)
    in_run = Counter(method.run for method in labels)
    names: dict[_Method, str] = {}
    for method, own in labels.items():
        name = own.pop() if len(own) == 1 else ""
        name = name or settings[method]
        if method.run is not None:
            alone = named and in_run[method.run] == 1
            name = method.run if alone else f"{name} ({method.run})"
        names[method] = name
    if len(set(names.values())) == len(names):
        return names
    return {
        method: own if method.run is None else f"{own}, {method.run}"
        for method, own in settings.items()
    }


def _name_by_settings(one: _Variant, keys: Sequence[str]) -> str:
    short = short_names(keys)
    parts = [f"{short[key]}={one.value(key)}" for key in keys if key != METHOD]
    if METHOD in keys or not parts:
        parts.insert(0, one.settings.get(METHOD, "all"))
    return ", ".join(parts)


def _label_without(one: _Variant, keys: Sequence[str]) -> str:
    """Return a variant's label without its parts, such as ``function=F1``, that name other keys."""
    parts = {
        f"{end}={one.settings[key]}"
        for key in keys
        if key in one.settings
        for end in {*ends(key), *ends(key.removesuffix(".name"))}
    }
    name = one.settings.get(METHOD, "")
    kept = [part for part in one.entrant.variant.split(", ") if part not in parts]
    return ", ".join(name if part == f"method={name}" else part for part in kept)
