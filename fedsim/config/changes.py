"""What may change in a configuration when its run is resumed, and why the rest may not.

A journal and its configuration belong together: whoever runs that configuration and seed from the
start gets the same journal. So a key may change only if what is recorded so far would have been the
same with the new value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedsim.config.model import Config, named
from fedsim.errors import ConfigError

SEEDS, BUDGET, ON_ERROR = "seeds", "privacy.budget", "on_error"

FREE = ("backend", "agents_per_actor", "address", "deadlines", "resources", ON_ERROR)
"""Results do not depend on where something runs and how long that may take, nor on what would have
happened if something had failed that did not."""

Changes = Mapping[str, tuple[Any, Any]]
"""By key: the old and the new value."""

_FROM_THE_START = "what is recorded so far was made with it"
_WHY = {
    "name": "the run folder has its name already",
    "rounds": "methods know the number of rounds from the start, and may plan with it",
    "variants": "each is an experiment of its own",
    "noise_control": "it adds variants, each of which is an experiment of its own",
    "transcript": "what the server received so far would be missing in it",
    "privacy.delta": "the tables of the seeds that are done have the old one",
    "privacy.accounting": "what was spent so far was counted with it",
    "privacy.accountant": "what was spent so far was counted with it",
}


def require_same_names(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Refuse another scenario or method, before its settings are read as those of the old one.

    Args:
        before: the resolved configuration.
        after: the same with changes, not checked.

    Raises:
        ConfigError: if there is another one.
    """
    for section in ("scenario", "method"):
        was, will = (_name_in(one.get(section)) for one in (before, after))
        if was != will:
            raise _refused(f"{section}.name", _FROM_THE_START)


def _name_in(section: Any) -> Any:
    given = named(section)
    return given.get("name") if isinstance(given, Mapping) else given


def changes(before: Config, after: Config) -> Changes:
    """Return what changes.

    If ``privacy.budget`` or ``on_error`` is among them, the caller has still to check that no
    release was refused, and no evaluation skipped.

    Raises:
        ConfigError: if one of them may not change.
    """
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    found = {key: (old[key], new[key]) for key in old if old[key] != new[key]}
    for section in found.keys() & {"privacy", "deadlines"}:
        was, will = found.pop(section)
        inside = {key for key in was if was[key] != will[key]}
        found |= {f"{section}.{key}": (was[key], will[key]) for key in sorted(inside)}
    for key, (was, will) in found.items():
        _check(key, was, will)
    return found


def _check(key: str, was: Any, will: Any) -> None:
    """Raise ConfigError if a key may not change like this."""
    if key.partition(".")[0] in FREE:
        return
    if key == SEEDS:
        if lost := sorted(set(was) - set(will)):
            raise ConfigError(
                f"seeds: expected the run's own and more, got {will} without {lost}: what is "
                "recorded stays in the run"
            )
        return
    if key == BUDGET:
        if was is None or (will is not None and will < was):
            raise ConfigError(
                f"privacy.budget: expected more than {was}, or null for no limit, got {will}: a "
                "smaller one might already be spent"
                if was is not None
                else f"privacy.budget: expected null, got {will}: the run started without one"
            )
        return
    raise _refused(key, _WHY.get(key, _FROM_THE_START))


def _refused(key: str, why: str) -> ConfigError:
    return ConfigError(
        f"{key}: cannot change when a run is resumed: {why}; start a new run, or choose among "
        f"{', '.join((*FREE, SEEDS, BUDGET))}"
    )


def as_records(found: Changes, at: str) -> list[dict[str, Any]]:
    """Return changes as records for a manifest.

    Args:
        found: what :func:`changes` returned.
        at: the time, ISO 8601.
    """
    return [{"at": at, "key": key, "from": was, "to": will} for key, (was, will) in found.items()]
