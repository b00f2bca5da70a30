"""Three tables with a yes-or-no question: credit default, diabetes, death in hospital.

The workload of FBO-FedGP, Sec. 5.1. Each is read from its data set into numbers; gaps are NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedsim.data.datasets import locate
from fedsim.space import Array

Name = Literal["credit_default", "cdc_diabetes", "support2"]
Labels = NDArray[np.uint8]

TARGET = "hospdead"
"""The question of SUPPORT2: did the patient die in hospital?"""

ROW_NUMBER = ("sno",)
KNOWN_AFTERWARDS = (
    "death", "d.time", "slos", "sfdm2", "charges", "totcst", "totmcst", "dnr", "dnrday",
    "avtisst",  # the mean effort of care on days 3 to 25
)  # fmt: skip
PREDICTED_BY_OTHERS = ("surv2m", "surv6m", "prg2m", "prg6m", "sps", "aps")
DROPPED = (*ROW_NUMBER, *KNOWN_AFTERWARDS, *PREDICTED_BY_OTHERS)
"""Columns of SUPPORT2 that say nothing, or the answer, or what a model or a doctor thinks of it."""


@dataclass(frozen=True)
class Table:
    """A labelled table.

    Attributes:
        X: features, NaN where there is a gap, shape (n, D).
        y: 1 for yes, else 0, shape (n,).
    """

    X: Array
    y: Labels


def read_table(name: Name, data_dir: Path | None) -> Table:
    """Read a table.

    Args:
        name: of the data set.
        data_dir: the folder of the data sets, or None for the user's cache.

    Raises:
        MissingDataError: if the data set is missing.
        ConfigError: if its checksum is wrong.
    """
    path = locate(name, data_dir)
    if name == "support2":
        return _read_support2(path)
    with np.load(path) as arrays:
        return Table(arrays["X"].astype(np.float64), arrays["y"].astype(np.uint8))


def _read_support2(path: Path) -> Table:
    """Words become their places in alphabetical order, which is enough for trees."""
    import pandas as pd

    rows = pd.read_csv(path)
    y = rows[TARGET].to_numpy(dtype=np.uint8)
    columns = []
    for name, column in rows.items():
        if name in (TARGET, *DROPPED):
            continue
        if not pd.api.types.is_numeric_dtype(column):
            codes = pd.Categorical(column).codes.astype(np.float64)  # -1 for a gap
            columns.append(np.where(codes < 0, np.nan, codes))
        else:
            columns.append(column.to_numpy(dtype=np.float64))
    return Table(np.column_stack(columns), y)
