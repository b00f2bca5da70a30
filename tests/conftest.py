"""Fixtures for all tests: a temporary current folder, and users' modules in it."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits
from xdist.scheduler import LoadScopeScheduling

# No deadlines: how long an example takes, or its drawing, depends on the machine's load.
settings.register_profile("fedsim", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fedsim")

ROOT = Path(__file__).parents[1]
# Started in the background of a shell, pytest and what it starts would ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# With Ray's default (nice 15), its processes would starve next to other tests.
os.environ.update({"RAY_worker_niceness": "0"})
# Of the processes that this one starts, pytest-xdist's too: with more threads than cores, small
# matrices take several times as long.
os.environ.update({"OPENBLAS_NUM_THREADS": "1"})

_NUMBERS = itertools.count()

HEAVY_FIXTURES = {"ray_cluster", "wheel"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what the fixtures above make heavy; run heavy tests first, so that none is last."""
    if named := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"names of tests hold an address, which differs: {named}")
    for item in items:
        if HEAVY_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("heavy")
    items.sort(key=lambda item: item.get_closest_marker("heavy") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give all of the engine's tests to one process, so that there is one cluster.

    pytest-xdist's own groups change what pytest 9.2 no longer reads.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = lambda name: "engine" if name.startswith("tests/actors/") else name
    return scheduler


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let no test that is not marked heavy start a process or Ray, not even in a fixture."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a test that starts a process or Ray is to be marked heavy")

    with pytest.MonkeyPatch.context() as patched:
        if item.get_closest_marker("heavy") is None:
            patched.setattr(subprocess.Popen, "__init__", refuse)
            patched.setattr(os, "fork", refuse)
            if "ray" in sys.modules:
                patched.setattr("ray.init", refuse)
        return (yield)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the real data sets; tests that need it are skipped without it."""
    named = os.environ.get("FEDSIM_DATA")
    folder = Path(named).absolute() if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the data sets: set FEDSIM_DATA")
    return folder


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the tree, built with the installed setuptools."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in ("fedsim", "actors", "scenarios", "dashboards"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "."]
    run = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    (built,) = (tree / "dist").glob("*.whl")
    return built


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Numerical libraries have two threads, unless what is tested changes that."""

    def limit(threads: int) -> None:
        # In a thread that ends: OpenBLAS obeys the first thread that asks, while that lives.
        thread = threading.Thread(target=threadpool_limits, args=(threads,))
        thread.start()
        thread.join()

    limit(2)
    yield
    limit(1)


@pytest.fixture
def user_module(here: Path) -> Iterator[Callable[[str], str]]:
    """A function that writes a user's module into the current folder and returns its name."""
    path = list(sys.path)
    known = set(sys.modules)

    def write(text: str) -> str:
        name = f"users_{next(_NUMBERS)}"
        (here / f"{name}.py").write_text(textwrap.dedent(text), "utf-8")
        return name

    yield write
    sys.path[:] = path
    for name in set(sys.modules) - known:
        if name.startswith("users_"):
            del sys.modules[name]
