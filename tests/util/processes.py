"""Finds, kills and waits for processes of a test's own drivers, and no others."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

COMMAND = [sys.executable, "-c", "from fedsim.cli.main import main; main()"]
"""The command line, before its arguments."""

FEDSIM = str(Path(sys.executable).with_name("fedsim"))
HERE = Path(__file__).parents[1] / "actors"
PATIENCE = 180.0
"""Seconds that anything may take on a busy machine."""


def descendants(root: int) -> list[int]:
    """Return the processes below ``root``, by the kernel's record of parents."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found, level = list[int](), {root}
    while level:
        level = {pid for pid, parent in parents.items() if parent in level}
        found += sorted(level)
    return found


def actors(root: int, name: str) -> list[int]:
    """Return the Ray actors of a class below ``root``."""
    found = []
    for pid in descendants(root):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if command.startswith(f"ray::{name}".encode()):
            found.append(pid)
    return found


def alive(pid: int) -> bool:
    """Return whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def await_end(pids: Sequence[int]) -> None:
    """Wait until processes are gone."""
    deadline = time.monotonic() + PATIENCE
    while remaining := [pid for pid in pids if alive(pid)]:
        assert time.monotonic() < deadline, f"still alive: {remaining}"
        time.sleep(0.05)


def start_fedsim(*arguments: str, start_new_session: bool = False) -> subprocess.Popen[str]:
    """Start the command line in this folder, where ``workloads`` can be imported."""
    return subprocess.Popen(
        [FEDSIM, *arguments],
        cwd=HERE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=start_new_session,
    )


def loaded_by(code: str, *arguments: str, folder: Path | None = None) -> set[str]:
    """Return ``sys.modules`` of a fresh process after it ran some code."""
    code += "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", code, *arguments]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


def write_config(config: Mapping[str, Any], folder: Path) -> str:
    """Write a configuration into a folder and return its path."""
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(dict(config)))
    return str(path)


def steps(journal: Path) -> int:
    """Return how many steps a journal holds."""
    try:
        return journal.read_bytes().count(b'{"kind":"step"')
    except FileNotFoundError:
        return 0


def await_steps(journal: Path, count: int) -> None:
    """Wait until a journal holds this many steps."""
    deadline = time.monotonic() + PATIENCE
    while steps(journal) < count:
        assert time.monotonic() < deadline, f"{journal}: {steps(journal)} of {count} steps"
        time.sleep(0.002)


class Killer(threading.Thread):
    """Kills actors below this process: one per journal, once it holds a given number of steps.

    Args:
        name: the actors' class.
        kills: after how many steps to kill, by journal, in the order in which they are written.

    Attributes:
        steps_at_death: how many steps each journal held just after its kill.
    """

    def __init__(self, name: str, kills: Mapping[Path, int]) -> None:
        super().__init__(daemon=True)
        self._name = name
        self._kills = kills
        self.steps_at_death: dict[Path, int] = {}
        self.start()

    def run(self) -> None:
        for number, (journal, count) in enumerate(self._kills.items()):
            await_steps(journal, count)
            victims = actors(os.getpid(), self._name)
            os.kill(victims[number % len(victims)], signal.SIGKILL)
            self.steps_at_death[journal] = steps(journal)

    def check(self, last: int) -> None:
        """Assert that every kill came in time: there was still a step to do."""
        self.join(PATIENCE)
        assert self.steps_at_death.keys() == self._kills.keys()
        for journal, count in self._kills.items():
            assert count <= self.steps_at_death[journal] < last
