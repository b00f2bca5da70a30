"""The tables of a run, written while its journal is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import fedsim
from fedsim.record.journal import open_journal
from fedsim.record.lines import LineWriter
from fedsim.record.manifest import Facts, described
from fedsim.record.runfolder import RunFolder
from fedsim.results import observations
from fedsim.results.observations import ObservationColumns
from fedsim.results.seeds import SeedRun
from fedsim.results.tables import finish
from fedsim.space import Parameter, Space
from tests.util.mixed import MIXED
from tests.util.small import small

TELLING = """
    from fedsim.methods.common import SilentServer
    from fedsim.methods.random_search import RandomSearch

    class Server(SilentServer):
        rounds = 0

        def round(self, t, fleet):
            fleet.step(t, None)
            if t == 2:
                return {}
            return {"twice": 2 * t, "unknown": float("nan")} | ({"late": 0.5} if t > 2 else {})

    class Method(RandomSearch):
        def server(self):
            return Server()
"""


def test_what_a_server_tells_about_its_rounds_is_in_the_table(
    here: Path, user_module: Callable[[str], str]
) -> None:
    module = user_module(TELLING)
    (one,) = fedsim.run(small(method=f"{module}:Method", rounds=4)).runs
    rounds = one.rounds.set_index("round")
    assert rounds["info.twice"].tolist()[:2] == [0.0, 2.0]
    assert np.isnan(rounds["info.twice"][2])
    assert rounds["info.twice"].tolist()[3:] == [6.0, 8.0]
    assert rounds["info.unknown"].isna().all()
    assert rounds["info.late"].isna().tolist() == [True, True, True, False, False]


def test_no_told_round_is_lost_when_its_checkpoint_is(
    here: Path, user_module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = user_module(TELLING)
    whole = fedsim.run(small(method=f"{module}:Method", rounds=4), out="whole").rounds

    def save(self: RunFolder, checkpoint: Any) -> None:
        if checkpoint.rounds == 4:
            raise KeyboardInterrupt
        kept(self, checkpoint)

    kept = RunFolder.save_checkpoint
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "save_checkpoint", save)
        with pytest.raises(fedsim.errors.Interrupted):
            fedsim.run(small(method=f"{module}:Method", rounds=4), out="cut")
    pd.testing.assert_frame_equal(fedsim.resume("cut").rounds, whole)


def test_every_kind_of_parameter_has_its_own_type_of_column(
    here: Path, user_module: Callable[[str], str]
) -> None:
    module = user_module(MIXED)
    run = fedsim.run(small("ts", scenario={"name": f"{module}:Mixed", "agents": 9}, rounds=3))
    (one,) = run.runs
    types = {
        field.name.removeprefix("point."): str(field.type)
        for field in pq.read_schema(one.folder.path / "observations.parquet")
        if field.name.startswith("point.")
    }
    assert types == {
        "C": "double",
        "loss": "string",
        "layers": "int64",
        "scaled": "bool",
        "gamma": "string",  # options of several kinds
        "units": "int64",
    }
    table = one.observations
    assert set(table["point.loss"]) <= {"hinge", "log", "squared"}
    assert set(table["point.gamma"]) <= {"auto", "0.5", "1"}
    assert set(table["point.layers"]) == {0, 1, 2}
    # The manifest describes the space, so that the table can be made without the scenario.
    (one.folder.path / "observations.parquet").unlink()
    (here / f"{module}.py").unlink()
    pd.testing.assert_frame_equal(fedsim.load(run.folder).runs[0].observations, table)


SPACE = Space((Parameter("a", 0, 1), Parameter("k", 1, 9, integer=True)))
AGENTS, ROUNDS = 4, 6


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """The folder of a run whose journal is complete and whose tables are not written yet."""
    found = RunFolder(tmp_path / "seed-0")
    found.create(
        {"rounds": ROUNDS, "privacy": dict.fromkeys(("delta", "accountant", "accounting"))}
    )
    journal, generator = open_journal(found.journal, "run"), np.random.default_rng(1)
    for t in range(ROUNDS + 1):
        rows = [
            [agent, t, 0, generator.random(2).tolist(), float(y), float(y) / 2, "own"]
            for agent, y in enumerate(generator.random(AGENTS))
        ]
        journal.append({"kind": "step", "t": t, "observations": rows})
    journal.close()
    LineWriter(found.timings).close()
    optima, parameters = (1.0,) * AGENTS, described(SPACE)
    facts = Facts(0, ROUNDS, AGENTS, "maximize", optima, 1e-3, "pld", "paper", parameters)
    found.update_manifest(status="done", **asdict(facts))
    return found


def test_pieces_make_the_same_table(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(folder, SPACE)
    whole = SeedRun("a", folder).observations
    sizes: list[int] = []
    monkeypatch.setattr(observations, "ROWS", 2 * AGENTS)
    write = ObservationColumns.flush

    def flush(self: ObservationColumns) -> None:
        sizes.append(len(self._records))
        write(self)

    monkeypatch.setattr(ObservationColumns, "flush", flush)
    finish(folder, SPACE)
    assert sizes == [8, 8, 8, 4]
    pd.testing.assert_frame_equal(SeedRun("a", folder).observations, whole)
    first = json.loads(folder.journal.read_text().splitlines()[1])["observations"]
    assert [SPACE.to_point(np.array(row[3])) for row in first] == [
        {"a": row["point.a"], "k": row["point.k"]} for _, row in whole[:AGENTS].iterrows()
    ]
    assert whole["point.k"].dtype == int
    assert whole["regret"].tolist() == pytest.approx((1 - whole["noiseless"]).tolist())


def test_a_table_appears_when_it_is_complete(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with folder.journal.open("a") as file:
        file.write('{"kind":"step","t":6,"observations":"torn in the middle"}\n')
    with pytest.raises(fedsim.errors.FedsimError, match="line 9 is damaged"):
        finish(folder, SPACE)
    assert sorted(path.name for path in folder.path.iterdir() if path.is_file()) == [
        "config.yaml",
        "journal.jsonl",
        "manifest.json",
        "timings.jsonl",
    ]


def test_the_journals_hash_is_that_of_the_file(folder: RunFolder) -> None:
    import hashlib

    expected = hashlib.sha256(folder.journal.read_bytes()).hexdigest()
    assert finish(folder, SPACE)["journal_sha256"] == expected


def test_the_journal_is_read_once(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    open_path = Path.open

    def watched(self: Path, *args: Any, **options: Any) -> Any:
        opened.append(self)
        return open_path(self, *args, **options)

    monkeypatch.setattr(Path, "open", watched)
    finish(folder, SPACE)
    assert opened.count(folder.journal) == 1


def test_a_table_says_which_journal_it_was_made_from(folder: RunFolder) -> None:
    expected = finish(folder, SPACE)["journal_sha256"].encode()
    for name in ("rounds", "observations"):
        metadata = pq.read_metadata(folder.path / f"{name}.parquet").metadata
        assert metadata[b"fedsim.journal_sha256"] == expected


def test_facts_come_back_from_the_manifest(folder: RunFolder) -> None:
    assert Facts.of(folder).space() == SPACE
    low, high = cast("tuple[Any, Any]", (np.int64(1), np.int64(4)))  # which JSON does not know
    numbers = Space((Parameter("k", low, high, integer=True),))
    folder.update_manifest(parameters=described(numbers))
    assert Facts.of(folder).space() == numbers
