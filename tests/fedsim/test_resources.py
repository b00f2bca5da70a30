"""What this process may use, read from fake systems."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from fedsim.resources import available_megabytes, usable_cpus

GIGABYTE = 10**9


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node of 256 CPUs, all of which the affinity allows."""
    everything = set(range(256))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: everything, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 256)
    return tmp_path


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")


class TestCpus:
    def test_all_of_them_if_nothing_limits_it(self, root: Path) -> None:
        assert usable_cpus(root, {}) == 256

    def test_affinity(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 8})
        assert usable_cpus(root, {}) == 2

    def test_no_affinity_on_this_system(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(os, "sched_getaffinity")
        assert usable_cpus(root, {}) == 256
        monkeypatch.setattr(os, "cpu_count", lambda: None)
        assert usable_cpus(root, {}) == 1

    @pytest.mark.parametrize(
        ("groups", "files", "expected"),
        [
            ("0::/", {"cpu.max": "200000 100000"}, 2),  # a container
            ("0::/", {"cpu.max": "150000 100000"}, 2),
            ("0::/", {"cpu.max": "5000 100000"}, 1),
            ("0::/", {"cpu.max": "max 100000"}, 256),
            ("0::/job/step", {"job/step/cpu.max": "max 100000", "job/cpu.max": "400000 100000"}, 4),
            (
                "0::/job/step",
                {"job/step/cpu.max": "30000 10000", "job/cpu.max": "400000 100000"},
                3,
            ),
            ("0::/not/visible/inside", {"cpu.max": "300000 100000"}, 3),
            (
                "4:memory:/\n3:cpu,cpuacct:/docker/1f\n1:name=systemd:/",
                {
                    "cpu,cpuacct/cpu.cfs_quota_us": "250000",
                    "cpu,cpuacct/cpu.cfs_period_us": "50000",
                },
                5,
            ),
            (
                "3:cpu:/job\n0::/",
                {"cpu/job/cpu.cfs_quota_us": "-1", "cpu/job/cpu.cfs_period_us": "100000"},
                256,
            ),
            ("3:cpuacct:/\n0::/", {"cpuacct/cpu.cfs_quota_us": "1"}, 256),
            ("0::/", {"cpu.max": "nonsense"}, 256),
        ],
    )
    def test_quotas(self, root: Path, groups: str, files: Mapping[str, str], expected: int) -> None:
        write(root, {"proc/self/cgroup": groups})
        write(root, {f"sys/fs/cgroup/{name}": text for name, text in files.items()})
        assert usable_cpus(root, {}) == expected

    @pytest.mark.parametrize(
        ("variables", "expected"),
        [
            ({"SLURM_CPUS_PER_TASK": "4", "SLURM_CPUS_ON_NODE": "64"}, 4),
            ({"SLURM_CPUS_ON_NODE": "64"}, 64),
            ({"NCPUS": "8"}, 8),
            ({"PBS_NUM_PPN": "6"}, 6),
            ({"LSB_DJOB_NUMPROC": "5"}, 5),
            ({"NSLOTS": "3"}, 3),
            ({"NSLOTS": "1000"}, 256),
            ({"NSLOTS": "", "NCPUS": "0", "SLURM_CPUS_ON_NODE": "many"}, 256),
        ],
    )
    def test_batch_systems(self, root: Path, variables: Mapping[str, str], expected: int) -> None:
        assert usable_cpus(root, variables) == expected

    def test_the_smallest_limit_counts(self, root: Path) -> None:
        write(root, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "700000 100000"})
        assert usable_cpus(root, {"NSLOTS": "9"}) == 7
        assert usable_cpus(root, {"NSLOTS": "2"}) == 2


class TestMemory:
    @pytest.fixture
    def node(self, root: Path) -> Path:
        write(root, {"proc/meminfo": "MemTotal: 64000000 kB\nMemAvailable:   50000000 kB"})
        return root

    def test_what_the_machine_has(self, node: Path) -> None:
        assert available_megabytes(node) == 50_000

    @pytest.mark.parametrize(
        ("groups", "names"),
        [
            ("0::/", ("memory.max", "memory.current", "inactive_file", ".")),
            ("0::/a/b", ("memory.max", "memory.current", "inactive_file", "a")),
            (
                "4:memory:/job",
                (
                    "memory.limit_in_bytes",
                    "memory.usage_in_bytes",
                    "total_inactive_file",
                    "memory/job",
                ),
            ),
        ],
    )
    def test_what_its_groups_allow(
        self, node: Path, groups: str, names: tuple[str, str, str, str]
    ) -> None:
        limit, used, cache, folder = names
        at = f"sys/fs/cgroup/{folder}"
        write(node, {"proc/self/cgroup": groups})
        write(node, {f"{at}/{limit}": f"{8 * GIGABYTE}", f"{at}/{used}": f"{3 * GIGABYTE}"})
        assert available_megabytes(node) == 5000
        write(node, {f"{at}/memory.stat": f"anon 7\n{cache} {2 * GIGABYTE}"})
        assert available_megabytes(node) == 7000

    @pytest.mark.parametrize("limit", ["max", f"{2**63 - 4096}"])
    def test_no_limit(self, node: Path, limit: str) -> None:
        write(node, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": limit})
        write(node, {"sys/fs/cgroup/memory.current": "1000"})
        assert available_megabytes(node) == 50_000

    @pytest.mark.parametrize(
        "text",
        [
            "MemTotal: 64000000 kB\n\nMemAvailable: 50000000 kB\n\n",  # blank lines
            "caf\xe9\nMemAvailable: 50000000 kB",
        ],
    )
    def test_a_meminfo_with_other_lines(self, root: Path, text: str) -> None:
        (root / "proc").mkdir(exist_ok=True)
        (root / "proc/meminfo").write_bytes(text.encode("latin-1"))
        assert available_megabytes(root) == 50_000

    def test_no_meminfo_that_helps(self, root: Path) -> None:
        for text in ("MemTotal: 64000000 kB", ""):  # some containers
            write(root, {"proc/meminfo": text})
            assert 10 < available_megabytes(root) < 1e8

    def test_this_machine(self) -> None:
        assert 10 < available_megabytes() < 1e8
        assert 1 <= usable_cpus() <= (os.cpu_count() or 1)
