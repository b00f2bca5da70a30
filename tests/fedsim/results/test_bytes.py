"""What agents send and receive: in tables, scores, pictures and closing words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.dashboards.curves import chart
from fedsim.errors import ConfigError
from tests.util.small import small

SENT, RECEIVED = "mean_uploaded_bytes", "mean_downloaded_bytes"
M = 8
LENGTHS = {"fts-target": M, "rgpe": M + M * M, "taf": M + M * M + 1}


def config(*names: str, **changes: Any) -> dict[str, Any]:
    raw = small("fts-target", rounds=4, **changes)
    raw["method"] |= {"targets": [1], "helper_queries": 3, "renew": "never"}
    raw["variants"] = {name: {"method": {"name": name}} for name in names}
    return raw


def test_messages_have_the_papers_lengths(here: Path) -> None:
    run = fedsim.run(config(*LENGTHS, "ts"))
    rounds = run.rounds.groupby("variant")
    for name, length in LENGTHS.items():
        table = rounds.get_group(name)
        # Each of two helpers sends one message before round 0; the mean is over three agents.
        assert table[SENT].tolist() == pytest.approx([8 * length * 2 / 3] * 5)
        # From round 0 on the target has both, with the numbers of senders and messages.
        received = [8 * (2 * length + 2 * 2) * (t + 1) / 3 for t in range(5)]
        assert table[RECEIVED].tolist() == pytest.approx(received)
    assert not rounds.get_group("ts")[[SENT, RECEIVED]].to_numpy().any()


def test_every_method_has_them_and_they_are_sums_of_calls(here: Path) -> None:
    raw = small("dp-fts-de", rounds=3)
    run = fedsim.run(raw)
    table = run.rounds
    moved = run.runs[0].summary()
    # A release is broadcast in each round from 1 on; all agents answer with a vector in 0 to 2.
    assert table[SENT].tolist() == pytest.approx([8.0 * M * n for n in (1, 2, 3, 3)])
    assert (np.diff(table[RECEIVED]) > 0).all()
    assert (moved[SENT], moved[RECEIVED]) == (table[SENT].iloc[-1], table[RECEIVED].iloc[-1])


def test_they_are_metrics_and_an_axis(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = fedsim.run(config("fts-target", "rgpe", seeds=[0, 1]))
    found = fedsim.compare(run, metric="uploaded_bytes")
    assert found is not None
    curves = {c.variant: c for c in chart(run, x="bytes").panels[0].curves}
    table = run.rounds[(run.rounds["variant"] == "rgpe") & (run.rounds["seed"] == 0)]
    assert curves["rgpe"].x == pytest.approx((table[SENT] + table[RECEIVED]).tolist())
    with pytest.raises(ConfigError, match="uploaded_bytes is known as a mean of agents only"):
        fedsim.compare(run, metric="uploaded-bytes", best_agent=True)
    capsys.readouterr()
    assert run_command(["compare", str(run.folder), "--metric", "uploaded-bytes"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "fts-target 2 42.67 baseline rgpe 2 384 -341.3" in told
    assert run_command(["show", str(run.folder)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "messages of rgpe: an agent sent 384 bytes and received" in shown


def test_times_of_another_run_tell_nothing(here: Path) -> None:
    run = fedsim.run(config("rgpe"))
    folder = run.runs[0].folder
    lines = folder.timings.read_text("utf-8").splitlines()
    folder.timings.write_text("\n".join(lines[:1]) + "\n", "utf-8")
    (folder.path / "rounds.parquet").unlink()
    assert fedsim.load(run.folder).rounds[SENT].isna().all()
