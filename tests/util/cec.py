"""Made-up tables of the form of the CEC 2005 data, and where the real ones are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedsim.data.catalogue import DataSet
from fedsim.scenarios.cec_functions import DEFINITIONS
from fedsim.space import Array
from tests.util.standins import entry

SIZES = (2, 10)


def made_up_tables(seed: int = 0) -> dict[str, Array]:
    """Return shifts inside the boxes and random rotations, for 2 and 10 dimensions."""
    generator = np.random.default_rng(seed)
    tables: dict[str, Array] = {}
    for number in (1, 2, 3, 5, 6, 7, 8, 9, 11, 13, 14):
        lower, upper = DEFINITIONS[f"F{number}"].box  # type: ignore[index]
        tables[f"o_f{number}"] = generator.uniform(lower, upper, 100)
    tables |= {name: generator.uniform(-5, 5, (10, 100)) for name in ("o_hybrid1", "o_hybrid2")}
    tables |= {
        name: generator.integers(-100, 100, (100, 100)).astype(float)
        for name in ("A_f5", "a_f12", "b_f12")
    }
    tables["alpha_f12"] = generator.uniform(-np.pi, np.pi, 100)
    for D in SIZES:
        for number in (3, 7, 8, 10, 11, 14):
            tables[f"M_f{number}_D{D}"] = np.linalg.qr(generator.normal(size=(D, D)))[0]
        for number in (1, 2):
            stack = generator.normal(size=(10, D, D))
            tables[f"M_hybrid{number}_D{D}"] = np.linalg.qr(stack)[0]
    return tables


def made_up_set(folder: Path) -> DataSet:
    """Save such tables as a data set in a folder, and return its catalogue entry."""
    path = folder / "cec2005" / "cec2005_official.npz"
    path.parent.mkdir(parents=True)
    np.savez(path, **made_up_tables())  # type: ignore[arg-type]
    return entry(path)
