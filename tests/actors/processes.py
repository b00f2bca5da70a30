"""Finding, killing and awaiting the processes of a test's own drivers, and no others."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

FEDSIM = str(Path(sys.executable).with_name("fedsim"))
HERE = Path(__file__).parent
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
    """Tell whether a process runs (a zombie does not)."""
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


def start_fedsim(*arguments: str, **options: object) -> subprocess.Popen[str]:
    """Start the command line in this folder, where ``workloads`` can be imported."""
    return subprocess.Popen(
        [FEDSIM, *arguments],
        cwd=HERE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def steps(journal: Path) -> int:
    """Return how many steps a journal holds."""
    return journal.read_bytes().count(b'{"kind":"step"') if journal.exists() else 0


def await_steps(journal: Path, count: int) -> None:
    """Wait until a journal holds so many steps."""
    deadline = time.monotonic() + PATIENCE
    while steps(journal) < count:
        assert time.monotonic() < deadline, f"{journal}: {steps(journal)} of {count} steps"
        time.sleep(0.002)


class Killer(threading.Thread):
    """Kills one actor below this process once a journal holds so many steps.

    Args:
        name: the actor's class.
        journal: what to watch.
        count: how many steps to wait for.
        choice: which of the actors to kill, modulo their number.

    Attributes:
        steps_at_death: how many steps the journal held just after the kill, or None before.
    """

    def __init__(self, name: str, journal: Path, count: int, choice: int = 0) -> None:
        super().__init__(daemon=True)
        self._name = name
        self._journal = journal
        self._count = count
        self._choice = choice
        self.steps_at_death: int | None = None
        self.start()

    def run(self) -> None:
        await_steps(self._journal, self._count)
        victims = actors(os.getpid(), self._name)
        os.kill(victims[self._choice % len(victims)], signal.SIGKILL)
        self.steps_at_death = steps(self._journal)
