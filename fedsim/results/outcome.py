"""What a finished run's manifest holds as its outcome, checked before it is shown."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Number = float | None
"""Infinity, which JSON lacks, is None."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _StrictDelta(_Strict):
    pld: Number
    rdp: Number


class _Epsilon(_Strict):
    delta: float
    releases: int
    neighbouring_relation: str
    sampling: str
    pld: Number
    rdp: Number
    moments: Number = None
    strict: _StrictDelta = Field(alias="delta_1e-5")


class _NotAccounted(_Strict):
    delta: float
    releases: int
    not_accounted: str


class _Nothing(_Strict):
    model_config = ConfigDict(extra="forbid")


class _Outcome(_Strict):
    metric: Literal["simple_regret", "best_observed"]
    direction: Literal["maximize", "minimize"]
    mean_best_observed: Number
    best_observed: Number
    mean_best_noiseless: Number
    best_noiseless: Number
    mean_simple_regret: Number
    simple_regret: Number
    mean_inference_regret: Number
    inference_regret: Number
    agents: int
    targets: list[int] | None = None
    agents_with_values: int
    evaluations: int
    evaluations_per_second: Number
    evaluations_failed: int = 0
    first_failure: str | None = None
    releases_refused: int = 0
    epsilon: _Epsilon | _NotAccounted | _Nothing
    objective_seconds: Number
    other_seconds: Number
    lost_times: str | None = None
    mean_uploaded_bytes: Number = None
    mean_downloaded_bytes: Number = None
    traffic: dict[str, list[int]] = {}


class _Baseline(_Strict):
    name: str
    mean: float


def is_baseline(found: Any) -> bool:
    """Return whether a manifest's baseline has its name and its mean over agents."""
    try:
        _Baseline.model_validate(found)
    except ValidationError:
        return False
    return True


def is_outcome(found: Any) -> bool:
    """Return whether an outcome has everything that this version shows, of the right types."""
    try:
        _Outcome.model_validate(found)
    except ValidationError:
        return False
    return True
