"""Fingerprints of settings: they tell whether a record belongs to the settings beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def fingerprint(
    scenario: Mapping[str, Any],
    method: Mapping[str, Any],
    rounds: int,
    seed: int | None,
    availability: Any = 1.0,
) -> str:
    """Return what tells settings apart that a journal depends on: 16 hexadecimal digits.

    Args:
        scenario: the resolved section.
        method: the resolved section.
        rounds: queries after the initial design.
        seed: the seed; None: of all seeds of a variant together.
        availability: the probability that an agent takes part, or one for each agent.
    """
    told: list[Any] = [scenario, method, rounds, seed]
    told += [availability] if availability != 1.0 else []
    return _digest(told)


def _digest(told: Any) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def with_noise(found: str, *, system: bool) -> str:
    """Return a fingerprint that also tells whether noise comes from the operating system."""
    return found + ("-system-noise" if system else "")


def fingerprint_settings(config: Mapping[str, Any]) -> str:
    """Return the fingerprint of a resolved configuration without variants, for all of its seeds.

    Raises:
        LookupError, TypeError, ValueError: if it is damaged.
    """
    found = fingerprint(
        config["scenario"], config["method"], config["rounds"], None, config["availability"]
    )
    return with_noise(found, system=config["privacy"]["noise_source"] == "system")


def fingerprint_keys(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the fingerprint of each key of a resolved configuration that results depend on.

    No resume may change them. Keys that are missing have one, too.
    """
    privacy = config.get("privacy")
    source = privacy.get("noise_source") if isinstance(privacy, Mapping) else None
    names = ("scenario", "method", "rounds", "availability", "variants", "noise_control")
    told = {**{name: config.get(name) for name in names}, "privacy.noise_source": source}
    return {name: _digest(value) for name, value in told.items()}
