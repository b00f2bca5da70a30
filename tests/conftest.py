"""Fixtures for all tests: a temporary current folder, and users' modules in it."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# No deadlines: how long an example takes depends on the machine's load.
settings.register_profile("fedsim", deadline=None)
settings.load_profile("fedsim")

ROOT = Path(__file__).parents[1]
# Started in the background of a shell, pytest and what it starts would ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# With Ray's default (nice 15), its processes would starve next to other tests.
os.environ.update({"RAY_worker_niceness": "0"})

_NUMBERS = itertools.count()


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
