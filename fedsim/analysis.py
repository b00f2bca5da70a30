"""From run folders to tables: what every figure, report and summary is made of.

Values are in the scenario's own sign and units. Where a scenario knows its optimum and its
noiseless values, the score is the **simple regret** (the optimum's distance from the best
noiseless value found so far, initial design included), else the best observed value so far.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedsim.config import NOISE_CONTROL
from fedsim.errors import RunFolderError
from fedsim.journal import Line, Recorded, read_journal
from fedsim.privacy.accountants import (
    NEIGHBOURING_RELATION,
    SAMPLING,
    default_delta,
    make_accountant,
    privacy_loss,
)
from fedsim.privacy.events import SubsampledGaussian
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import Scenario
from fedsim.runfolder import RunFolder, read_yaml

STRICT_DELTA = 1e-5
"""Reported beside N^-1.1, which is weak for few agents."""


@dataclass(frozen=True)
class SeedRun:
    """One finished or unfinished seed of one variant.

    Attributes:
        variant: the curve's label; the method's name if the run has only one.
        folder: its folder.
    """

    variant: str
    folder: RunFolder

    @property
    def seed(self) -> int:
        """The seed, from the folder's name."""
        return int(self.folder.path.name.removeprefix("seed-"))

    @property
    def status(self) -> str:
        """``done``, ``running``, ``failed``, ``interrupted`` or ``not started``."""
        return str(self.folder.manifest().get("status", "not started"))

    @property
    def observations(self) -> pd.DataFrame:
        """One row per evaluation; raises RunFolderError before the run is done."""
        return self.table("observations")

    @property
    def rounds(self) -> pd.DataFrame:
        """One row per round; raises RunFolderError before the run is done."""
        return self.table("rounds")

    def table(self, name: str) -> pd.DataFrame:
        """Return ``observations`` or ``rounds``; raises RunFolderError before the run is done."""
        path = self.folder.path / f"{name}.parquet"
        if not path.exists():
            raise RunFolderError(
                f"{self.folder.path}: the run is {self.status}; `fedsim resume` finishes it"
            )
        return pd.read_parquet(path)

    def summary(self) -> dict[str, Any]:
        """Return the run's outcome as it stands in ``fedsim run --json``."""
        manifest = self.folder.manifest()
        outcome: dict[str, Any] = {
            "variant": self.variant,
            "seed": self.seed,
            "folder": str(self.folder.path),
            "status": self.status,
        }
        return {**outcome, **manifest.get("outcome", {})}


@dataclass(frozen=True)
class Run:
    """A run folder: all variants and seeds.

    Attributes:
        folder: the run folder.
        runs: its seeds, variant by variant.
    """

    folder: Path
    runs: tuple[SeedRun, ...]

    @property
    def config(self) -> dict[str, Any]:
        """The whole resolved configuration."""
        return read_yaml(self.folder / "config.yaml")

    @property
    def observations(self) -> pd.DataFrame:
        """All evaluations, with columns ``variant`` and ``seed``."""
        return self._concatenated("observations")

    @property
    def rounds(self) -> pd.DataFrame:
        """All rounds, with columns ``variant`` and ``seed``."""
        return self._concatenated("rounds")

    def summaries(self) -> list[dict[str, Any]]:
        """Return every seed's outcome."""
        return [run.summary() for run in self.runs]

    def _concatenated(self, name: str) -> pd.DataFrame:
        tables = []
        for run in self.runs:
            table = run.table(name)
            table.insert(0, "variant", run.variant)
            table.insert(1, "seed", run.seed)
            tables.append(table)
        return pd.concat(tables, ignore_index=True)


def load(folder: str | Path) -> Run:
    """Open a run folder, or the folder of one of its variants or seeds.

    Raises:
        RunFolderError: if there is no run.
    """
    path = Path(folder)
    if path.name.startswith("seed-") and (path / "config.yaml").exists():
        return Run(path, (SeedRun(_label(path.parent), RunFolder(path)),))
    found = [file.parent for file in path.glob("**/seed-*/config.yaml")]
    if not found:
        raise RunFolderError(f"{path}: not a run folder: no seed-* folder with a config.yaml")
    labels = {parent: _label(parent) for parent in {seed.parent for seed in found}}
    runs = [SeedRun(labels[seed.parent], RunFolder(seed)) for seed in found]
    whole = path / "config.yaml"
    order = list(read_yaml(whole).get("variants", {})) if whole.exists() else []
    runs.sort(key=lambda run: (_rank(run.variant, order), run.variant, run.seed))
    return Run(path, tuple(runs))


def _label(folder: Path) -> str:
    """Return the label of the variant that is kept in a folder: the method's, if it has none."""
    marker = folder / "variant.txt"
    if marker.exists():
        return marker.read_text().strip()
    seed = next(iter(sorted(folder.glob("seed-*/config.yaml"))))
    return str(read_yaml(seed)["method"]["name"])


def _rank(label: str, order: Sequence[str]) -> int:
    """Return a variant's place in the configuration; its noise-only control follows it."""
    return order.index(name) if (name := label.removesuffix(NOISE_CONTROL)) in order else -1


def finish(folder: RunFolder, scenario: Scenario, delta: float | None) -> dict[str, Any]:
    """Write a finished run's tables and return its outcome.

    Args:
        folder: the run's folder; its journal is complete.
        scenario: for parameter names, direction and optima.
        delta: δ of the reported ε; None is N^-1.1.
    """
    lines = list(read_journal(folder.journal))
    records = [(r, t) for t, r in _evaluations(lines)]
    observed = _observation_table(records, scenario)
    rounds = _round_table(observed, lines, scenario, delta or default_delta(scenario.agents))
    observed.to_parquet(folder.path / "observations.parquet")
    rounds.to_parquet(folder.path / "rounds.parquet")
    return _outcome(folder, observed, rounds, scenario, delta or default_delta(scenario.agents))


def _evaluations(lines: Sequence[Line]) -> list[tuple[int, Recorded]]:
    return [
        (line["t"], Recorded.from_json(row))
        for line in lines
        if line["kind"] == "step"
        for row in line["observations"]
    ]


def _observation_table(records: list[tuple[Recorded, int]], scenario: Scenario) -> pd.DataFrame:
    points = [scenario.space.to_point(np.array(r.u)) for r, _ in records]
    columns: dict[str, Any] = {
        "agent": [r.agent for r, _ in records],
        "round": [t for _, t in records],
        "step": [r.step for r, _ in records],
        "index": [r.index for r, _ in records],
        "source": [r.source for r, _ in records],
        "y": [r.y for r, _ in records],
        "noiseless": np.array([r.noiseless for r, _ in records], dtype=float),
    }
    for name in scenario.space.names:
        columns[f"point.{name}"] = [p[name] for p in points]
    table = pd.DataFrame(columns)
    optima = _optima(scenario)
    sign = 1.0 if scenario.direction == "maximize" else -1.0
    if optima is not None and not table["noiseless"].isna().any():
        table["regret"] = sign * (optima[table["agent"].to_numpy()] - table["noiseless"])
    return table


def _optima(scenario: Scenario) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    if not hasattr(scenario, "optimum"):
        return None
    found = [scenario.optimum(agent) for agent in range(scenario.agents)]
    return None if any(x is None for x in found) else np.array(found, dtype=float)


def _round_table(
    observed: pd.DataFrame, lines: Sequence[Line], scenario: Scenario, delta: float
) -> pd.DataFrame:
    maximize = scenario.direction == "maximize"
    by_round = observed.groupby(["round", "agent"])
    y = by_round["y"].agg("max" if maximize else "min").unstack()
    best = y.cummax() if maximize else y.cummin()
    best = best.ffill()
    table = pd.DataFrame(
        {
            "round": best.index,
            "mean_best": best.mean(axis=1),
            "best": best.max(axis=1) if maximize else best.min(axis=1),
        }
    )
    if "regret" in observed:
        simple = by_round["regret"].min().unstack().cummin().ffill()
        table["mean_simple_regret"] = simple.mean(axis=1)
        table["best_simple_regret"] = simple.min(axis=1)
        table["mean_regret"] = observed.groupby("round")["regret"].mean()
        queries = table["mean_regret"].where(table["round"] > 0, 0.0)
        table["mean_cumulative_regret"] = queries.cumsum()
    return _with_privacy(table.reset_index(drop=True), lines, delta)


def _with_privacy(table: pd.DataFrame, lines: Sequence[Line], delta: float) -> pd.DataFrame:
    releases = {line["t"]: line for line in lines if line["kind"] == "release"}
    if not any("event" in line for line in releases.values()):
        return table
    accountant, ledger = make_accountant("pld"), Ledger()
    epsilon, noise = [], []
    for t in table["round"]:
        line = releases.get(t, {})
        if "event" in line:
            ledger = ledger.charge(SubsampledGaussian(**line["event"]))
        epsilon.append(privacy_loss(ledger, delta, accountant).epsilon)
        noise.append(line.get("experimenter", {}).get("signal_to_noise", np.nan))
    table["epsilon_pld"] = epsilon
    table["signal_to_noise"] = noise
    return table


def epsilons(events: Sequence[SubsampledGaussian], delta: float) -> dict[str, Any]:
    """Return the total ε by accountant, with everything that a reader of ε must know.

    Args:
        events: all releases; none gives an empty report.
        delta: δ in (0, 1); ε at 1e-5 is reported beside it.
    """
    if not events:
        return {}
    ledger = Ledger.from_events(events)
    pld, rdp, moments = (make_accountant(name) for name in ("pld", "rdp", "moments"))
    report: dict[str, Any] = {
        "delta": delta,
        "releases": len(events),
        "neighbouring_relation": NEIGHBOURING_RELATION,
        "sampling": SAMPLING,
    }
    for accountant in (pld, rdp, moments):
        report[accountant.name] = privacy_loss(ledger, delta, accountant).epsilon
    report["pld_exact_multipliers"] = privacy_loss(ledger, delta, pld, "exact").epsilon
    report["delta_1e-5"] = {
        accountant.name: privacy_loss(ledger, STRICT_DELTA, accountant).epsilon
        for accountant in (pld, rdp)
    }
    return report


def _outcome(
    folder: RunFolder,
    observed: pd.DataFrame,
    rounds: pd.DataFrame,
    scenario: Scenario,
    delta: float,
) -> dict[str, Any]:
    last = rounds.iloc[-1]
    lines = list(read_journal(folder.journal))
    regret = "mean_simple_regret" in rounds
    events = [SubsampledGaussian(**line["event"]) for line in lines if "event" in line]
    outcome: dict[str, Any] = {
        "metric": "simple regret" if regret else "best value",
        "direction": scenario.direction,
        "best": float(last["best_simple_regret" if regret else "best"]),
        "mean": float(last["mean_simple_regret" if regret else "mean_best"]),
        "evaluations": len(observed),
        "epsilon": epsilons(events, delta),
        **cpu_seconds(folder),
        "journal_sha256": hashlib.sha256(folder.journal.read_bytes()).hexdigest(),
    }
    refused = sum("refused" in line for line in lines)
    if refused:
        outcome["releases_refused"] = refused
    return outcome


def cpu_seconds(folder: RunFolder) -> dict[str, float]:
    """Return CPU seconds of a run: in objectives, and everything else."""
    objective = total = 0.0
    for raw in folder.timings.read_text().splitlines():
        line: Mapping[str, Any] = json.loads(raw)
        if line["kind"] == "call":
            objective += line["objective_cpu_seconds"]
        total += line.get("agent_cpu_seconds", 0.0) + line.get("server_cpu_seconds", 0.0)
    return {"objective_seconds": objective, "other_seconds": total - objective}


def control_verdicts(run: Run) -> list[str]:
    """Return one sentence per private variant that was run beside its noise-only control.

    The comparison is paired on seeds: the mean over rounds of the score, the difference and its
    standard error over seeds.
    """
    labels = {one.variant for one in run.runs}
    pairs = [(label, label + NOISE_CONTROL) for label in labels if label + NOISE_CONTROL in labels]
    if not pairs:
        return []
    rounds = run.rounds
    rounds = rounds[rounds["round"] > 0]
    regret = "mean_simple_regret" in rounds
    column = "mean_simple_regret" if regret else "mean_best"
    score = rounds.groupby(["variant", "seed"])[column].mean()
    sign = 1 if regret or run.summaries()[0]["direction"] == "minimize" else -1
    return [
        _verdict(label, sign * (score[control] - score[label])) for label, control in sorted(pairs)
    ]


def _verdict(label: str, gain: pd.Series[float]) -> str:
    if len(gain) < 2:
        return (
            f"{label}: {gain.iloc[0]:+.4f} against its noise-only control, one seed: no error bar; "
            "use several seeds"
        )
    mean, error = float(gain.mean()), float(gain.sem())
    beats = "beats" if mean > 2 * error else "does NOT beat"
    return (
        f"{label} {beats} its noise-only control: {mean:+.4f} ± {error:.4f} (mean over rounds, "
        f"standard error over {len(gain)} paired seeds)"
    )
