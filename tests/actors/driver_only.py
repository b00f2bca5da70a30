"""A scenario that can be imported by a driver, but not by Ray's workers."""

import sys

if sys.argv[0].endswith("default_worker.py"):
    raise ImportError("libmissing.so, needed by DriverOnly")

from tests.actors.workloads import Bowl

DriverOnly = Bowl
