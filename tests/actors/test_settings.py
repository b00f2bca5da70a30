"""A class that a setting of fedsim's own methods names is imported on hosts, too."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedsim
from tests.util.small import UserModule, body, small

RAMP = """
    class Ramp:
        def __call__(self, t):
            return min(1.0, t / 4)
"""


@pytest.mark.usefixtures("ray_cluster")
def test_a_class_in_a_setting(here: Path, user_module: UserModule) -> None:
    raw = small("fts-de", rounds=4)
    raw["method"]["own_probability"] = f"{user_module(RAMP)}:Ramp"
    for backend in ("serial", "ray"):
        fedsim.run({**raw, "backend": backend}, out=Path(backend))
    serial, on_ray = (body(Path(b) / "seed-0" / "journal.jsonl") for b in ("serial", "ray"))
    assert serial == on_ray
    assert b'"own"' in serial
