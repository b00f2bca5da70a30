"""The tables and the outcome of a finished run, made from its journal.

Values are in the scenario's own sign and units. :class:`fedsim.record.tally.Scores` says what the
columns of the rounds are. If a scenario knows its optimum and its noiseless values, the metric is
the simple regret, else the best observed value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fedsim.record.entries import ReleaseEntry
from fedsim.record.manifest import Facts
from fedsim.record.runfolder import RunFolder
from fedsim.record.tally import Scores, Tally
from fedsim.record.timings import Timings, timings_of
from fedsim.results.losses import epsilons, loss_columns
from fedsim.results.observations import MADE_FROM, ObservationColumns, parquet_file, schema
from fedsim.results.reading import Reading, read_run, space_of
from fedsim.space import Array, Space

SCORES = [field.name for field in fields(Scores)]
EXPECTED = {
    "observations": {"agent", "round", "step", "index", "source", "y", "noiseless"},
    "rounds": {"round", "agents", "evaluations", "mean_best_observed", "best_observed"},
}
"""Columns without which a stored table is not used."""


def finish(folder: RunFolder, space: Space) -> dict[str, Any]:
    """Write a finished run's tables and return its outcome; the journal is read once.

    Args:
        folder: the run's folder; its journal is complete.
        space: for the parameters' names and units.
    """
    facts, path = Facts.of(folder), folder.path / "observations.parquet"
    with parquet_file(path, schema(facts, space)) as file:
        columns = ObservationColumns(facts, space, file.write_batch)
        reading = read_run(folder, facts, columns.add)
        columns.flush()
        file.add_key_value_metadata({MADE_FROM: reading.sha256})
    reading.close(facts.rounds)
    timings = timings_of(folder)
    table = pa.Table.from_pandas(round_table(reading, timings), preserve_index=False)
    with parquet_file(folder.path / "rounds.parquet", table.schema) as file:
        file.write_table(table)
        file.add_key_value_metadata({MADE_FROM: reading.sha256})
    return outcome(reading, timings)


def stored_table(folder: RunFolder, name: str, sha256: str | None) -> pd.DataFrame | None:
    """Return a table that :func:`finish` wrote, unless it is missing, damaged or another seed's.

    Args:
        folder: the run's folder.
        name: ``observations`` or ``rounds``.
        sha256: the hash of the journal that it was made from; None: one that does not say that.
    """
    try:
        with pq.ParquetFile(folder.path / f"{name}.parquet") as file:
            table = file.read()
            made_from = (file.metadata.metadata or {}).get(MADE_FROM, b"").decode()
        found: pd.DataFrame = table.to_pandas()
    except (OSError, ValueError, pa.ArrowException):
        return None
    return found if made_from == (sha256 or "") and set(found) >= EXPECTED[name] else None


def made_table(folder: RunFolder, facts: Facts, name: str) -> pd.DataFrame:
    """Return a table of a run that may be unfinished, from its journal.

    Args:
        folder: the run's folder.
        facts: what is known about it.
        name: ``observations`` or ``rounds``.

    Raises:
        RunFolderError: if the journal is missing or damaged; for observations also if the
            parameters are not known.
    """
    if name == "rounds":
        return round_table(read_run(folder, facts), timings_of(folder))
    space = space_of(folder, facts)
    batches: list[pa.RecordBatch] = []
    columns = ObservationColumns(facts, space, batches.append)
    read_run(folder, facts, columns.add)
    columns.flush()
    table: pd.DataFrame = pa.Table.from_batches(batches, columns.schema).to_pandas()
    return table


def round_table(reading: Reading, timings: Timings) -> pd.DataFrame:
    """Return one row per round, including rounds without observations.

    Means are over the ``agents`` that have observed something so far: if some start late or never,
    means of different rounds or runs are over different agents. If there are none, they are NaN.
    """
    rows, tally, facts = reading.rows, reading.tally, reading.facts
    table = pd.DataFrame([asdict(row.scores) for row in rows], columns=SCORES)
    names = table.columns.drop("agents")
    table[names] = table[names].astype(float)  # None is NaN
    known = {"observed": True, "noiseless": tally.knows_noiseless, "regret": tally.knows_regret}
    table = table.drop(columns=[n for n in names if not known[n.rpartition("_")[2]]])
    table.insert(0, "round", np.array([row.round for row in rows], dtype=int))
    table["evaluations"] = np.array([row.evaluations for row in rows], dtype=int)
    if facts.targets is not None:
        table["target_evaluations"] = np.array([row.counted for row in rows], dtype=int)
    table["coinciding"] = np.array([row.coinciding for row in rows], dtype=float)
    if tally.knows_regret:
        table["mean_regret"] = [row.mean_regret for row in rows]
        table["mean_cumulative_regret"] = [row.mean_cumulative_regret for row in rows]
    rounds = [row.round for row in rows]
    for name, numbers in loss_columns(rounds, reading.releases, reading.facts.delta).items():
        table[name] = np.array(numbers, dtype=float)
    for name, moved in byte_columns(rounds, timings, facts.agents).items():
        table[name] = moved
    told = timings.information
    for name in dict.fromkeys(name for numbers in told.values() for name in numbers):
        values = [told.get(row.round, {}).get(name) for row in rows]
        table[f"info.{name}"] = np.array(values, dtype=float)
    return table


def byte_columns(rounds: Sequence[int], timings: Timings, agents: int) -> dict[str, Array]:
    """Return what an agent sent and received up to each round, on average over all agents.

    Args:
        rounds: the rounds, ascending from 0.
        timings: the seed's; what follows a round that they do not have is NaN.
        agents: how many agents there are.
    """
    before = timings.bytes_by_round.get(-1, (0, 0))
    moved = [timings.bytes_by_round.get(t, (math.nan, math.nan)) for t in rounds]
    downloaded, uploaded = (
        (before[i] + np.cumsum([one[i] for one in moved], dtype=float)) / agents for i in (0, 1)
    )
    return {"mean_uploaded_bytes": uploaded, "mean_downloaded_bytes": downloaded}


def outcome_of(folder: RunFolder, facts: Facts) -> dict[str, Any]:
    """Return a finished run's outcome from its journal.

    Raises:
        RunFolderError: if the journal is missing or damaged.
    """
    reading = read_run(folder, facts)
    reading.close(facts.rounds)
    return outcome(reading, timings_of(folder))


def outcome(reading: Reading, timings: Timings) -> dict[str, Any]:
    """Return a finished run's outcome, as its manifest keeps it.

    If the times of some rounds are lost, those of the whole run are not known.
    """
    tally, facts, last = reading.tally, reading.facts, reading.rows[-1].scores
    events = [release.event for release in reading.releases if release.event is not None]
    lost = timings.lost(facts.rounds + 1)
    moved = byte_columns(range(facts.rounds + 1), timings, facts.agents)
    found: dict[str, Any] = {
        "metric": tally.metric,
        "direction": facts.direction,
        **asdict(last),
        "agents": facts.agents,
        **({} if facts.targets is None else {"targets": list(facts.targets)}),
        "agents_with_values": last.agents,
        "evaluations": tally.evaluations,
        "evaluations_per_second": (
            None if lost else timings.evaluations_per_second(tally.evaluations)
        ),
        "epsilon": epsilons(events, facts.delta),
        "objective_seconds": None if lost else timings.objective_seconds,
        "other_seconds": None if lost else timings.other_seconds,
        **{name: None if lost else float(numbers[-1]) for name, numbers in moved.items()},
        "traffic": {} if lost else {kind: list(both) for kind, both in timings.traffic.items()},
        **({"lost_times": f"timings.jsonl {lost}"} if lost else {}),
        "journal_sha256": reading.sha256,
    }
    doubts = reading.doubts.sentences()
    return {
        **found,
        **({"doubts": doubts} if doubts else {}),
        **_mishaps(reading.releases, tally, timings),
    }


def _mishaps(releases: Sequence[ReleaseEntry], tally: Tally, timings: Timings) -> dict[str, Any]:
    """Return the nonzero counts of refused and empty releases, absences and failures."""
    counts = {
        "releases_refused": sum(release.refused for release in releases),
        "releases_empty": sum(release.empty for release in releases),
        "absences": tally.absences,
        "evaluations_failed": tally.failed,
    }
    found: dict[str, Any] = {name: count for name, count in counts.items() if count}
    if tally.failed:
        found["first_failure"] = timings.first_failure
    return found
