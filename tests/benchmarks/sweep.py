"""What a sweep of 3 x 2 x 3 settings and 5 seeds gains from all CPUs.

Run it with ``python -m tests.benchmarks.sweep`` on an idle machine. The gain is the wall time with
one job at a time over that with one job per CPU; the CPU time is that of all processes.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import fedsim
from fedsim.resources import usable_cpus
from fedsim.yamltext import parse_yaml

GAIN_PER_CPU_BUDGET = 0.85


CONFIGURATION = """
name: sweep
scenario: {name: synthetic, agents: 20}
method: {name: dp-fts-de, message: {features: 50}}
rounds: 20
seeds: 0-4
backend: serial
grid:
  method.subregions: [1, 2, 4]
  method.dp.sampling_rate: [0.2, 0.5]
  method.surrogate.length_scale: [0.05, 0.1, 0.2]
"""


def measure(jobs: int, folder: Path) -> tuple[float, float]:
    """Run the sweep and return wall and CPU seconds."""
    start, before = time.perf_counter(), os.times()
    fedsim.run(parse_yaml(CONFIGURATION), out=folder, jobs=jobs)
    after = os.times()
    # Of this process and of those that it has waited for, user and system.
    cpu = sum(after[:4]) - sum(before[:4])
    return time.perf_counter() - start, cpu


def journals(folder: Path) -> dict[str, bytes]:
    """Return all journals of a run."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("journal.jsonl")}


def main() -> None:
    """Print the gain."""
    cpus = usable_cpus()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one, together = measure(1, folder / "one"), measure(cpus, folder / "together")
        assert journals(folder / "one") == journals(folder / "together")
    print(f"1 job at a time:  {one[0]:6.1f} s, {one[1]:6.1f} s CPU")
    print(f"{cpus} jobs at a time: {together[0]:6.1f} s, {together[1]:6.1f} s CPU")
    gain = one[0] / together[0]
    print(f"gain on {cpus} CPUs: {gain:.2f} (budget {GAIN_PER_CPU_BUDGET * cpus:.2f})")
    print(f"CPU time, {cpus} / 1 jobs at a time: {together[1] / one[1]:.2f}")


if __name__ == "__main__":
    main()
