"""Small configurations, for tests of the whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fedsim.config.construct import build_scenario
from fedsim.config.experiment import prepare
from fedsim.record.lines import encode, seal
from fedsim.record.progress import Progress
from fedsim.record.runfolder import RunFolder
from fedsim.simulation.loop import Simulation
from fedsim.simulation.serial import run_serial
from fedsim.yamltext import format_yaml

UserModule = Callable[[str], str]
"""The fixture ``user_module``: writes a user's module and returns its name."""


def small(method: str = "random-search", **changes: Any) -> dict[str, Any]:
    """Return a configuration that runs in a moment; ``changes`` replace its keys."""
    settings: dict[str, Any] = {"name": method, "initial_points": 2}
    if "fts" in method or "prior" in method or method in ("rgpe", "taf"):
        settings["message"] = {"features": 8}
        settings["surrogate"] = {"fit_every": 0, "candidates": 20}
    if method in ("fts-target", "rgpe", "taf"):
        settings |= {"targets": "all", "helper_queries": 3}
    config = {
        "name": "small",
        "scenario": {"name": "synthetic", "agents": 3, "grid_size": 20, "length_scale": 0.2},
        "method": settings,
        "rounds": 2,
        "backend": "serial",
    }
    return {**config, **changes}


def write(raw: dict[str, Any], name: str = "run.yaml") -> str:
    """Write a configuration into the current folder and return the file's name."""
    Path(name).write_text(format_yaml(raw), "utf-8")
    return name


def make(folder: Path, raw: dict[str, Any]) -> Simulation:
    """Return a simulation whose folder exists."""
    experiment = prepare(raw)
    (variant,) = experiment.variants.values()
    RunFolder(folder).create({})
    return Simulation(experiment.spec(variant, 0), folder)


def run(simulation: Simulation, notify: Callable[[Progress], None] = lambda _: None) -> bytes:
    """Run or resume a simulation in this process; return its journal."""
    run_serial(simulation, build_scenario(simulation.spec), 60.0, notify)
    return RunFolder(simulation.folder).journal.read_bytes()


def body(journal: Path) -> bytes:
    """Return a journal after its header, which tells settings apart even where they do nothing."""
    return journal.read_bytes().partition(b"\n")[2]


def journal_of(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Return a journal's content, with the checksums of these lines."""
    bare = ({key: value for key, value in line.items() if key != "crc"} for line in lines)
    return b"".join(seal(encode(line), number) for number, line in enumerate(bare, 1))


def await_lines(path: Path, count: int, seconds: float = 180.0) -> None:
    """Wait until a file, which may come and go, has exactly this many complete lines."""
    deadline = time.monotonic() + seconds
    while (found := _lines(path)) != count:
        assert time.monotonic() < deadline, f"{path}: {found} of {count} lines"
        time.sleep(0.02)


def _lines(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0
