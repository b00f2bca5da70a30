"""Run folders made by hand: finished runs with given scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.files import slugify, write_yaml
from fedsim.record.manifest import Facts
from fedsim.record.runfolder import RunFolder
from fedsim.results.analysis import Run, load

Scores = Callable[[int, int], Mapping[str, float]]
"""Returns the columns of one row of the rounds' table for a seed and a round."""


def made_run(
    folder: Path,
    variants: Mapping[str, Scores],
    *,
    seeds: int = 2,
    rounds: int = 4,
    agents: int = 3,
    directions: Mapping[str, str] | None = None,
    configs: Mapping[str, Mapping[str, Any]] | None = None,
) -> Run:
    """Write a finished run and open it.

    Args:
        folder: the run folder; must not exist.
        variants: what is in the tables, by label.
        seeds: how many seeds each has.
        rounds: the last round.
        agents: how many agents each has.
        directions: by label; ``maximize`` where a label is missing.
        configs: what is in each variant's configuration, by label.
    """
    write_yaml_at(folder / "origin.yaml", {"import_from": "", "data_dir": None})
    plan = {"variants": {label: {} for label in variants}, "seeds": [*range(seeds)]}
    write_yaml_at(folder / "config.yaml", plan)
    for label, scores in variants.items():
        place = folder / slugify(label)
        for seed in range(seeds):
            one = RunFolder(place / f"seed-{seed}")
            base = {"scenario": {"name": "made"}, "method": {"name": "made"}, "rounds": rounds}
            one.create({**base, **dict((configs or {}).get(label, {}))})
            direction: Any = (directions or {}).get(label, "maximize")
            facts = Facts(seed, rounds, agents, direction, None, 1e-3, "pld", "paper", ())
            one.update_manifest(status="done", **asdict(facts))
            one.journal.touch()
            rows = [
                {
                    "round": t,
                    "agents": agents,
                    "evaluations": agents * (t + 2),
                    "best_observed": 0.5,
                }
                | {"mean_best_observed": 0.5, **scores(seed, t)}
                for t in range(rounds + 1)
            ]
            pd.DataFrame(rows).to_parquet(one.path / "rounds.parquet")
        (place / "variant.txt").write_text(f"{label}\n", "utf-8")
    return load(folder)


def write_yaml_at(path: Path, value: Mapping[str, Any]) -> None:
    """Write a YAML file and the folders that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_yaml(path, value)
