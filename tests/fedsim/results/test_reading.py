"""One pass over a journal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.errors import RunFolderError
from fedsim.record.entries import Entry, Recorded, ReleaseEntry, StepEntry
from fedsim.record.journal import open_journal
from fedsim.record.manifest import Facts
from fedsim.record.runfolder import RunFolder
from fedsim.results.reading import Reading, read_run

FACTS = Facts(0, 5, 3, "maximize", (1.0, 2.0, 3.0), 1e-3, "pld", "paper")


def record(agent: int, y: float, step: int = 1, noiseless: float | None = None) -> Recorded:
    return Recorded(agent, step, 0, (0.5,), y, y if noiseless is None else noiseless, "own")


evaluations = st.lists(
    st.tuples(st.integers(-1, 5), st.integers(0, 2), st.integers(0, 2), st.floats(-9, 9)),
    max_size=25,
)


@given(evaluations)
def test_rows_are_what_pandas_says(rows: list[tuple[int, int, int, float]]) -> None:
    rows.sort(key=lambda row: row[0])
    reading = Reading(FACTS)
    for t, agent, step, y in rows:
        reading.add(StepEntry(t, (record(agent, y, step),)))
    reading.close(FACTS.rounds)
    table = pd.DataFrame(rows, columns=["round", "agent", "step", "y"])
    table["regret"] = np.array(FACTS.optima)[table["agent"].astype(int)] - table["y"]
    mean = table.groupby("round")["regret"].mean()
    queries = table[table["step"] > 0].groupby("round")["regret"].mean()
    rounds = range(FACTS.rounds + 1)
    found = pd.DataFrame(reading.rows)
    assert [row.round for row in reading.rows] == list(rounds)
    assert found["mean_regret"].to_numpy() == pytest.approx(
        mean.reindex(rounds).to_numpy(), nan_ok=True
    )
    expected = queries.reindex(rounds).fillna(0.0).cumsum()
    assert found["mean_cumulative_regret"].to_numpy() == pytest.approx(expected.to_numpy())
    made = [sum(t <= last for t, *_ in rows) for last in rounds]
    assert found["evaluations"].tolist() == made


def test_coinciding_queries_are_counted_by_round() -> None:
    def query(agent: int, u: float, step: int = 1) -> Recorded:
        return Recorded(agent, step, 0, (u, 0.5), 0.0, None, "own")

    reading = Reading(FACTS)
    reading.add(StepEntry(-1, (query(0, 0.1), query(1, 0.1))))  # before round 0: not counted
    reading.add(StepEntry(0, (query(0, 0.2, 0), query(1, 0.2, 0))))  # initial designs: no queries
    reading.add(StepEntry(1, (query(0, 0.3), query(1, 0.3), query(2, 0.4))))
    reading.add(StepEntry(2, (query(0, 0.3, 2), query(1, 0.5, 2))))
    reading.add(StepEntry(3, (query(0, 0.6, 3),)))  # two calls of one round
    reading.add(StepEntry(3, (query(1, 0.6, 3),)))
    reading.close(4)
    found = [row.coinciding for row in reading.rows]
    assert found == pytest.approx([np.nan, 2 / 3, 0.0, 1.0, np.nan], nan_ok=True)


def journal_of(folder: RunFolder, *entries: Entry) -> None:
    folder.create({})
    journal = open_journal(folder.journal, "run")
    for entry in entries:
        journal.append(entry.to_json())
    journal.close()


def test_an_unfinished_journal_ends_with_its_last_round(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "seed-0")
    first, second = StepEntry(0, (record(0, 0.5, 0),)), StepEntry(2, (record(1, 0.25),))
    journal_of(folder, first, ReleaseEntry(0), second)
    seen: list[StepEntry] = []
    whole = read_run(folder, FACTS, seen.append)
    assert [row.round for row in whole.rows] == [0, 1, 2]
    assert seen == [first, second]
    assert (len(whole.releases), whole.torn) == (1, False)
    with folder.journal.open("a") as file:
        file.write('{"kind":"step","t":3')
    assert read_run(folder, FACTS).torn
    assert read_run(folder, FACTS).rows == whole.rows
    assert read_run(folder, FACTS).sha256 == whole.sha256


def test_entries_of_unknown_agents_are_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "seed-0")
    journal_of(folder, StepEntry(0, (record(3, 0.5),)))
    with pytest.raises(RunFolderError, match=r"expected agents 0 to 2 in round 0, got \[3\]"):
        read_run(folder, FACTS)


def test_a_distance_beyond_the_largest_number_is_infinite() -> None:
    facts = Facts(0, 0, 1, "maximize", (1.7e308,), 1e-3, "pld", "paper")
    reading = Reading(facts)
    reading.add(StepEntry(0, (record(0, -1.7e308),)))
    reading.close(0)
    assert reading.rows[0].scores.mean_simple_regret == np.inf
