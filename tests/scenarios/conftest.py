"""Fixtures for tests of scenarios."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.util.cec import made_up_set
from tests.util.standins import made_up_fields, made_up_tables


@pytest.fixture(autouse=True)
def without_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless this is set, scikit-learn starts ``lscpu`` once, to count cores."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with made-up data sets in place of the real ones."""
    folder = tmp_path / "data"
    sets = {**made_up_tables(folder), "landmine": made_up_fields(folder)}
    sets["cec2005"] = made_up_set(folder)
    monkeypatch.setattr("fedsim.data.datasets.DATA_SETS", sets)
    monkeypatch.delenv("FEDSIM_DATA", raising=False)
    return folder
