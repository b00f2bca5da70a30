"""A scenario that can be imported by a driver, but not by Ray's workers."""

import sys

from workloads import Bowl as DriverOnly

if sys.argv[0].endswith("default_worker.py"):
    raise ImportError(f"libmissing.so, needed by {DriverOnly.__name__}")
