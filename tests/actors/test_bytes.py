"""Ray counts what agents send and receive as one process does.

test_mixed_spaces.py says the same of the methods that run in mixed spaces.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import fedsim
from tests.util.small import small


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("method", ["fbo-fedgp"])
def test_bytes_are_those_of_one_process(method: str, here: Path) -> None:
    columns = ["mean_uploaded_bytes", "mean_downloaded_bytes"]
    config = small(method, rounds=2)
    serial, ray = (
        fedsim.run({**config, "backend": backend}, out=backend).rounds[columns]
        for backend in ("serial", "ray")
    )
    assert (serial.iloc[-1] > 0.0).all()
    assert serial.equals(ray)
