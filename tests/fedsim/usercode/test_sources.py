"""Which modules are the user's: those that a run names, and what they import from their folders."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from fedsim.usercode.sources import UserCode


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def names(value: object, *folders: Path) -> list[str]:
    return [source.name for source in UserCode.named_in(value, folders).sources]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import helper", ["helper"]),
        ("from helper import f", ["helper"]),
        ("from helper import *", ["helper"]),
        ("def late():\n    import helper", ["helper"]),
        ("import helper, pkg", ["helper", "pkg"]),
        ("import pkg.deep.inner", ["pkg", "pkg.deep", "pkg.deep.inner"]),
        ("from pkg.deep import inner", ["pkg", "pkg.deep", "pkg.deep.inner"]),
        ("from pkg import value", ["pkg"]),
        ("import chain", ["chain", "helper"]),
        ("from space_only import part", ["space_only", "space_only.part"]),
        ("import json, random, numpy, fedsim.space", []),
        ("import missing", []),
        ("def broken(:", []),
        ("import obj", []),
    ],
)
def test_what_a_module_imports_from_its_folder_is_read(
    here: Path, text: str, found: list[str]
) -> None:
    files = {
        "obj.py": text,
        "helper.py": "import os",
        "chain.py": "from helper import f",
        "pkg/__init__.py": "value = 1",
        "pkg/deep/__init__.py": "",
        "pkg/deep/inner.py": "",
        "space_only/part.py": "",
        "random.py": "raise RuntimeError",
        "unused.py": "",
    }
    write(here, files)
    assert names("obj:Mine", here) == sorted(["obj", *found])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from . import two", ["pkg.two"]),
        ("from .two import f", ["pkg.two"]),
        ("from .sub import three", ["pkg.sub", "pkg.sub.three"]),
        ("from .sub.three import f", ["pkg.sub", "pkg.sub.three"]),
        ("from pkg.sub import three", ["pkg.sub", "pkg.sub.three"]),
    ],
)
def test_relative_imports_are_read(here: Path, text: str, found: list[str]) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/one.py": text,
        "pkg/two.py": "",
        "pkg/sub/__init__.py": "",
        "pkg/sub/three.py": "",
    }
    write(here, files)
    assert names("pkg.one:Mine", here) == sorted(["pkg", "pkg.one", *found])


def test_imports_from_a_parent_package_are_read(here: Path) -> None:
    files = {"pkg/__init__.py": "", "pkg/sub/__init__.py": "from .. import top", "pkg/top.py": ""}
    write(here, files)
    assert names("pkg.sub:Mine", here) == ["pkg", "pkg.sub", "pkg.top"]


def test_a_module_is_read_as_it_is_and_knows_its_file(here: Path) -> None:
    text = "# -*- coding: latin-1 -*-\nname = 'é'\n".encode("latin-1")
    (here / "obj.py").write_bytes(text)
    (source,) = UserCode.named_in("obj:Mine", [here]).sources
    assert (source.text, source.file) == (text, str(here / "obj.py"))
    assert source.digest == hashlib.sha256(text).hexdigest()


def test_the_first_folder_comes_first(here: Path) -> None:
    write(here, {"a/obj.py": "1", "b/obj.py": "2", "b/other.py": "3"})
    code = UserCode.named_in(["obj:X", "other:X"], [here / "a", here / "b", here / "a"])
    assert code.folders == (str(here / "a"), str(here / "b"))
    assert [source.text for source in code.sources] == [b"1", b"3"]


def test_names_are_found_anywhere_in_a_configuration(here: Path) -> None:
    write(here, {"a.py": "", "b.py": "", "c.py": "", "d.py": ""})
    config = {
        "scenario": {"name": "a:X", "depth": 3},
        "variants": {"one": {"method": {"name": "b:X"}}},
        "grid": {"method.name": ["c:X", "ts"]},
        "address": "d:6379",
        "note": "d: not a name",
    }
    assert names(config, here) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["json:X", "numpy:X", "fedsim.space:Space", "__main__:X", "no:X"])
def test_what_is_not_the_users_is_not_read(here: Path, name: str) -> None:
    assert names(name, here) == []


def test_what_an_installed_package_holds_is_not_read(here: Path) -> None:
    write(here, {"lib/site-packages/obj.py": ""})
    assert names("obj:X", here / "lib" / "site-packages") == []


def test_a_package_elsewhere_on_pythons_path_is_read(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when it is installed as editable, or named by PYTHONPATH."""
    files = {"src/mine_7/__init__.py": "", "src/mine_7/obj.py": "import mine_7_too, json"}
    write(here, {**files, "src/mine_7_too.py": "", "work/x": ""})
    monkeypatch.syspath_prepend(here / "src")
    assert names("mine_7.obj:X", here / "work") == ["mine_7", "mine_7.obj", "mine_7_too"]


def test_a_folder_without_init_does_not_hide_an_installed_package(here: Path) -> None:
    write(here, {"obj.py": "import yaml.nodes, parts.one", "yaml/nodes.py": "", "parts/one.py": ""})
    assert names("obj:X", here) == ["obj", "parts", "parts.one"]
