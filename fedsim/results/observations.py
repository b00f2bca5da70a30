"""The table of all evaluations, made in pieces while a journal is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedsim.record.entries import Recorded, StepEntry
from fedsim.record.manifest import Facts
from fedsim.space import Space
from fedsim.space.parameters import Column

ROWS = 20_000
"""Rows that are kept in memory before they are written."""

TYPES: dict[Column, pa.DataType] = {
    "float64": pa.float64(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "text": pa.string(),
}
"""How a table keeps a parameter's values."""

MADE_FROM = b"fedsim.journal_sha256"
"""Under which key a table's file says which journal it was made from."""


class ObservationColumns:
    """Turns steps into batches of rows: one row per evaluation that succeeded.

    Args:
        facts: what is known about the run.
        space: for the parameters' names and units.
        write: takes a batch of rows.
    """

    def __init__(
        self, facts: Facts, space: Space, write: Callable[[pa.RecordBatch], object]
    ) -> None:
        self._facts = facts
        self._space = space
        self._write = write
        self._rounds: list[int] = []
        self._records: list[Recorded] = []
        self.schema = schema(facts, space)
        # What takes few values meets the same ones again and again.
        self._values = [
            one.to_value if one.cells is None else lru_cache(1024)(one.to_value)
            for one in space.parameters
        ]

    def add(self, step: StepEntry) -> None:
        """Take a step's evaluations."""
        self._rounds += [step.t] * len(step.observations)
        self._records += step.observations
        if len(self._records) >= ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the rows that were not written yet."""
        columns = self._columns(self._records)
        self._write(pa.record_batch(columns, schema=self.schema))
        self._rounds, self._records = [], []

    def _columns(self, records: Sequence[Recorded]) -> list[Any]:
        agents = np.array([r.agent for r in records], dtype=int)
        noiseless = np.array([r.noiseless for r in records], dtype=float)  # None is NaN
        columns: list[Any] = [
            agents,
            self._rounds,
            [r.step for r in records],
            [r.index for r in records],
            [r.source for r in records],
            [r.y for r in records],
            noiseless,
        ]
        if self._facts.targets is not None:
            is_target = self._facts.is_target
            columns.append(["target" if is_target(r.agent) else "helper" for r in records])
        for i, one in enumerate(self._space.parameters):
            value = self._values[i]
            values = [value(r.u[i]) for r in records]
            columns.append([str(v) for v in values] if one.column == "text" else values)
        if self._facts.optima is not None:
            with np.errstate(over="ignore"):
                regret = np.array(self._facts.optima)[agents] - noiseless
            columns.append(self._facts.sign * regret)
        return columns


def schema(facts: Facts, space: Space) -> pa.Schema:
    """Return the columns.

    ``regret`` is among them if the optima are known, ``role`` if the method has targets: it is
    ``target`` or ``helper``.
    """
    whole, real = pa.int64(), pa.float64()
    fields = [(name, whole) for name in ("agent", "round", "step", "index")]
    fields += [("source", pa.string()), ("y", real), ("noiseless", real)]
    fields += [] if facts.targets is None else [("role", pa.string())]
    fields += [(f"point.{one.name}", TYPES[one.column]) for one in space.parameters]
    fields += [] if facts.optima is None else [("regret", real)]
    return pa.schema(fields)


@contextmanager
def parquet_file(path: Path, columns: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """Write a table in pieces; the file appears under its name when it is complete."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with pq.ParquetWriter(temporary, columns) as writer:
            yield writer
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
