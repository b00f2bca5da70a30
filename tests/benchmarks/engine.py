"""What the engine costs: time, memory, and CPU per agent and round, on Ray and without.

Run it with ``python -m tests.benchmarks.engine`` on an idle machine. CPU times are those of the
agents and the server; wall times and memory include the driver's process and all its children.
Memory is the sum of proportional set sizes, so that shared pages count once.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fedsim
from fedsim.resources import usable_cpus

ROUNDS = 20
SECONDS_BUDGET = 120.0
MEGABYTES_BUDGET = 3000.0
GROWTH_BUDGET = 1.3
SPEEDUP_BUDGET = 1.25


@dataclass(frozen=True)
class Outcome:
    """What one run took.

    Attributes:
        seconds: wall time of the whole run, start-up included.
        round_seconds: wall time of the rounds alone.
        cpu_seconds: CPU time of agents and server.
        server_seconds: the server's share of it.
        megabytes: peak memory of all processes, sampled.
        per_host: largest private and proportional memory of a host, in MB.
    """

    seconds: float
    round_seconds: float
    cpu_seconds: float
    server_seconds: float
    megabytes: float
    per_host: tuple[float, float]


class MemoryWatch(threading.Thread):
    """Samples the memory of this process and all below it, twice a second.

    Attributes:
        peak: the largest sum, in MB.
        per_host: the largest private and proportional memory of one host actor, in MB.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0.0
        self.per_host = (0.0, 0.0)
        self._end = threading.Event()

    def run(self) -> None:
        """Sample until :meth:`stop`."""
        while not self._end.wait(0.5):
            sizes = {pid: memory(pid) for pid in [os.getpid(), *descendants(os.getpid())]}
            self.peak = max(self.peak, sum(proportional for _, proportional in sizes.values()))
            hosts = [size for pid, size in sizes.items() if command(pid).startswith("ray::Agent")]
            self.per_host = max([self.per_host, *hosts])

    def stop(self) -> None:
        """End sampling."""
        self._end.set()
        self.join()


def descendants(root: int) -> list[int]:
    """Return the processes below one, by the kernel's record of parents."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := text(entry / "stat")):
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found = list(children.get(root, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def memory(pid: int) -> tuple[float, float]:
    """Return a process's private and proportional memory in MB; 0 if it is gone."""
    lines = text(Path(f"/proc/{pid}/smaps_rollup")).splitlines()[1:]
    kilobytes = {line.partition(":")[0]: float(line.split()[1]) for line in lines}
    private = kilobytes.get("Private_Clean", 0.0) + kilobytes.get("Private_Dirty", 0.0)
    return private / 1e3, kilobytes.get("Pss", 0.0) / 1e3


def command(pid: int) -> str:
    """Return a process's command line, or an empty string."""
    return text(Path(f"/proc/{pid}/cmdline"))


def text(path: Path) -> str:
    """Return a file of /proc, or an empty string if its process is gone."""
    try:
        return path.read_text()
    except OSError:
        return ""


def configuration(agents: int, backend: str) -> Mapping[str, Any]:
    """Return the run that is measured."""
    return {
        "name": "engine",
        "scenario": {"name": "synthetic", "agents": agents},
        "method": {
            "name": "dp-fts-de",
            "message": {"features": 50},
            "surrogate": {"fit_every": 0, "length_scale": 0.03, "noise_variance": 0.01},
        },
        "rounds": ROUNDS,
        "backend": backend,
    }


def measure(agents: int, backend: str) -> Outcome:
    """Run once and return what it took."""
    with tempfile.TemporaryDirectory() as folder:
        watch, start = MemoryWatch(), time.perf_counter()
        watch.start()
        fedsim.run(configuration(agents, backend), out=Path(folder) / "run")
        seconds = time.perf_counter() - start
        watch.stop()
        timings = Path(folder) / "run" / "seed-0" / "timings.jsonl"
        lines = [json.loads(line) for line in timings.read_text().splitlines()]
    rounds = [line for line in lines if line["kind"] == "round"]
    server = sum(line["server_cpu_seconds"] for line in rounds)
    agents_cpu = sum(line["agent_cpu_seconds"] for line in lines if line["kind"] == "call")
    # The first round holds the start of the hosts.
    later = sum(line["seconds"] for line in rounds[1:])
    return Outcome(seconds, later, agents_cpu + server, server, watch.peak, watch.per_host)


def report(name: str, agents: int, outcome: Outcome) -> None:
    """Print one run."""
    per = 1e3 * outcome.cpu_seconds / agents / (ROUNDS + 1)
    private, proportional = outcome.per_host
    print(
        f"{name:<7} {agents:5d} agents: {outcome.seconds:6.1f} s, rounds 1-{ROUNDS} alone "
        f"{outcome.round_seconds:6.1f} s; {per:.3f} ms CPU per agent and round, of it server "
        f"{outcome.server_seconds / outcome.cpu_seconds:4.0%}; {outcome.megabytes:5.0f} MB in all"
        + (f", a host {private:.0f} private, {proportional:.0f} PSS" if private else "")
    )


def main() -> None:
    """Print what runs cost, and the ratios that have a budget."""
    serial = measure(1000, "serial")
    small, large = measure(100, "ray"), measure(1000, "ray")
    report("serial", 1000, serial)
    report("ray", 100, small)
    report("ray", 1000, large)
    growth = large.cpu_seconds / small.cpu_seconds / 10
    cpus = usable_cpus()
    speedup = large.round_seconds / (serial.round_seconds / cpus)
    print(f"1000 agents, {ROUNDS} rounds: {large.seconds / SECONDS_BUDGET:.2f} of the time budget")
    print(f"memory: {large.megabytes / MEGABYTES_BUDGET:.2f} of the budget")
    print(f"CPU per agent and round, 1000 / 100 agents: {growth:.2f} (budget {GROWTH_BUDGET})")
    print(f"rounds, Ray / (serial / {cpus} CPUs): {speedup:.2f} (budget {SPEEDUP_BUDGET})")


if __name__ == "__main__":
    main()
