"""What a job raises, whichever backend runs it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from fedsim.config.experiment import prepare
from fedsim.errors import DiskError, FedsimError, ResourceError
from fedsim.running.jobs import Job, run_job
from fedsim.workload import Scenario
from tests.util.small import make, small


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            MemoryError(),
            ResourceError,
            "the memory is full; what was recorded is kept: free memory",
        ),
        (OSError(errno.EMFILE, "x"), DiskError, "Too many open files; what was recorded is kept: "),
        (LookupError("ours"), LookupError, "ours"),
    ],
)
@pytest.mark.parametrize("backend", ["serial", "ray"])
def test_what_the_system_lacks_fails_a_job(
    tmp_path: Path, backend: str, error: Exception, kind: type[FedsimError], words: str
) -> None:
    def simulate(scenario: Scenario) -> None:
        raise error

    job = Job("small", prepare(small()).config, make(tmp_path / "a", small()))
    with pytest.raises(kind, match=f"^{words}"):
        run_job(job, backend, simulate)
    assert job.folder.manifest()["status"] == "running"  # until whoever runs it notes the failure
