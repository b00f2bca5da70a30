"""Small configurations, for tests of the whole."""

from __future__ import annotations

from typing import Any


def small(method: str = "random-search", **changes: Any) -> dict[str, Any]:
    """Return a configuration that runs in a moment; ``changes`` replace its keys."""
    settings: dict[str, Any] = {"name": method, "initial_points": 2}
    if "fts" in method:
        settings["message"] = {"features": 8}
        settings["surrogate"] = {"fit_every": 0, "candidates": 20}
    config = {
        "name": "small",
        "scenario": {"name": "synthetic", "agents": 3, "grid_size": 20, "length_scale": 0.2},
        "method": settings,
        "rounds": 2,
        "backend": "serial",
    }
    return {**config, **changes}
