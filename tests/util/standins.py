"""Small made-up data sets in place of those of the scenarios `tabular` and `landmine`."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np

from fedsim.data.catalogue import DataFile, DataSet
from fedsim.scenarios.landmine import FIELDS

HEADER = "sno,age,death,sex,hospdead,surv2m,ca,aps"


def entry(path: Path) -> DataSet:
    content = path.read_bytes()
    file = DataFile(path.name, len(content), hashlib.sha256(content).hexdigest(), "numbers")
    return DataSet(path.parent.name, "made up", "none", "nowhere", (file,))


def made_up_tables(folder: Path, rows: int = 600) -> dict[str, DataSet]:
    """Save small data sets: each row's first feature is its number, the second tells the class."""
    generator = np.random.default_rng(0)
    y = (generator.random(rows) < 0.25).astype(np.uint8)
    X = np.column_stack([np.arange(rows), 100 * y + generator.integers(0, 120, rows)])
    found = {}
    for name in ("credit_default", "cdc_diabetes"):
        path = folder / name / f"{name}.npz"
        path.parent.mkdir(parents=True)
        np.savez(path, X=X.astype(np.int32), y=y, feature=np.array(["row", "clue"]))
        found[name] = entry(path)
    lines = [HEADER]
    for i in range(rows):
        sex, ca = ("male", "female", "")[i % 3], ("yes", "no", "metastatic")[i % 2]
        age = "" if i % 5 == 0 else X[i, 1]
        lines.append(f"{i},{age},{y[i]},{sex},{y[i]},0.5,{ca},7")
    path = folder / "support2" / "support2.csv.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    return {**found, "support2": entry(path)}


def made_up_fields(folder: Path) -> DataSet:
    """Write 29 small fields of the real ones' form; return their entry of the catalogue."""
    generator = np.random.default_rng(0)
    sizes = generator.integers(26, 34, FIELDS)
    field = np.repeat(np.arange(1, FIELDS + 1, dtype=np.uint8), sizes)
    y = np.concatenate([np.arange(n) < 8 for n in sizes]).astype(np.uint8)
    X = generator.normal(size=(len(y), 9)) + 0.5 * y[:, None]
    order = generator.permutation(len(y))
    path = folder / "landmine" / "landmine.npz"
    path.parent.mkdir(parents=True)
    np.savez(path, X=X[order], y=y[order], field=field[order])
    return entry(path)
