"""What may change in a configuration when its run is resumed, and why the rest may not.

A journal and its configuration belong together: whoever runs that configuration and seed from the
start gets the same journal. So a key may change only if what is recorded so far would have been the
same with the new value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedsim.config.model import Config
from fedsim.errors import ConfigError

FREE = ("backend", "agents_per_actor", "address", "deadlines", "resources", "on_error")
"""Results do not depend on where and for how long something runs, nor on what would have happened
if something had failed that did not."""

SEEDS, BUDGET = "seeds", "privacy.budget"

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


def changes(before: Config, after: Config) -> dict[str, tuple[Any, Any]]:
    """Return what changes, by key: the old and the new value.

    The caller has still to check that no release was refused, if ``privacy.budget`` is among them.

    Raises:
        ConfigError: if one of them may not change.
    """
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    found = {key: (old[key], new[key]) for key in old if old[key] != new[key]}
    if "privacy" in found:
        was, will = found.pop("privacy")
        found |= {f"privacy.{key}": (was[key], will[key]) for key in was if was[key] != will[key]}
    for key, (was, will) in found.items():
        _check(key, was, will)
    return found


def _check(key: str, was: Any, will: Any) -> None:
    """Raise ConfigError if a key may not change like this."""
    if key in FREE:
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
    why = _WHY.get(key, _FROM_THE_START)
    raise ConfigError(
        f"{key}: cannot change when a run is resumed: {why}; start a new run, or choose among "
        f"{', '.join((*FREE, SEEDS, BUDGET))}"
    )


def as_records(found: Mapping[str, tuple[Any, Any]], at: str) -> list[dict[str, Any]]:
    """Return changes as records for a manifest.

    Args:
        found: what :func:`changes` returned.
        at: the time, ISO 8601.
    """
    return [{"at": at, "key": key, "from": was, "to": will} for key, (was, will) in found.items()]
