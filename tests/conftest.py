"""What tests of the whole share: a folder of their own, and users' modules in it."""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes depends on what else the machine is doing: no deadlines.
settings.register_profile("fedsim", deadline=None)
settings.load_profile("fedsim")

_NUMBERS = itertools.count()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
