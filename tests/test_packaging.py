"""What holds for the package as a whole: what is installed, and which way imports point."""

import ast
import importlib
import inspect
import pickle
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from fedsim.errors import FedsimError
from tests.util.processes import loaded_by

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = {"fedsim": "fedsim", **{f"fedsim.{r}": r for r in ("actors", "scenarios", "dashboards")}}
HEAVY = {"ray", "torch", "tenseal", "dp_accounting", "sklearn", "matplotlib"}
COMPOSITION_ROOT = (
    "fedsim.cli",
    "fedsim.runner",
    "fedsim.running.placement",
    "fedsim.running.execution",
)


def module_files() -> dict[str, Path]:
    """Return every module of the package by its import name."""
    files = {}
    for package, folder in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *parts)).removesuffix(".__init__")
            files[name] = path
    return files


MODULES = module_files()
CORE = [name for name, path in MODULES.items() if path.is_relative_to(ROOT / "fedsim")]


def imported(source: str) -> set[str]:
    """Return all names that a module's text imports, wherever; relative ones start with a dot."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            names |= {origin} | {f"{origin}.{alias.name}" for alias in node.names}
    return names


def touches(names: set[str], *packages: str) -> set[str]:
    """Return the names that are one of ``packages`` or lie inside one."""
    return {n for n in names if any(n == p or n.startswith(f"{p}.") for p in packages)}


def loaded_after(modules: list[str]) -> set[str]:
    """Return ``sys.modules`` of a fresh process, started in the root, that imported ``modules``."""
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    return loaded_by(code, *modules, folder=ROOT)


class TestImports:
    def test_the_guards_see_every_way_to_import(self) -> None:
        text = "import a.b\ndef f():\n  from c import d\n  from .e import g\n  from . import h"
        assert imported(text) == {"a.b", "c", "c.d", ".e", ".e.g", ".", "..h"}
        assert touches({"ray.data", "rayon", "x.ray", "ray"}, "ray") == {"ray.data", "ray"}

    @pytest.mark.heavy
    def test_the_generic_names_are_never_imported(self) -> None:
        loaded = loaded_after([name for name in MODULES if not name.endswith("__main__")])
        assert MODULES.keys() - {"fedsim.__main__", "fedsim.cli.__main__"} <= loaded
        assert not touches(loaded, "actors", "scenarios", "dashboards")

    @pytest.mark.heavy
    def test_importing_fedsim_loads_nothing_heavy(self) -> None:
        assert not touches(loaded_after(["fedsim"]), *HEAVY)

    @pytest.mark.heavy
    def test_importing_any_module_of_fedsim_loads_nothing_heavy(self) -> None:
        loaded = loaded_after([name for name in CORE if not name.endswith("__main__")])
        assert not loaded & HEAVY

    def test_the_composition_root_is_there(self) -> None:
        assert set(COMPOSITION_ROOT) <= MODULES.keys()

    @pytest.mark.parametrize("name", MODULES)
    def test_imports_are_absolute(self, name: str) -> None:
        names = imported(MODULES[name].read_text())
        assert not {n for n in names if n.startswith(".")}
        assert not touches(names, "actors", "scenarios", "dashboards")

    # The package itself names what it offers, to type checkers only.
    @pytest.mark.parametrize(
        "name", [n for n in CORE if n != "fedsim" and not touches({n}, *COMPOSITION_ROOT)]
    )
    def test_the_science_does_not_know_the_other_rooms(self, name: str) -> None:
        names = imported(MODULES[name].read_text())
        assert not touches(names, "fedsim.actors", "fedsim.scenarios", "fedsim.dashboards", "ray")

    @pytest.mark.parametrize("name", [n for n in MODULES if n.startswith("fedsim.dashboards")])
    def test_dashboards_never_import_ray(self, name: str) -> None:
        assert not touches(imported(MODULES[name].read_text()), "ray", "fedsim.actors")


class TestDistribution:
    def test_every_folder_with_code_is_listed(self) -> None:
        setuptools = PROJECT["tool"]["setuptools"]
        found = {
            n if path.stem == "__init__" else n.rpartition(".")[0] for n, path in MODULES.items()
        }
        assert set(setuptools["packages"]) == found
        assert setuptools["package-dir"] == FOLDERS

    def test_the_citation_names_the_same_version_and_licence(self) -> None:
        citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
        project = PROJECT["project"]
        assert citation["version"] == project["version"]
        assert citation["license"] == project["license"]

    def test_every_package_has_an_init_file(self) -> None:
        folders = {path.parent for path in MODULES.values()}
        assert not [str(f) for f in folders if not (f / "__init__.py").exists()]

    def test_the_wheel_installs_one_name(self, wheel: Path) -> None:
        assert {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()} == {
            "fedsim",
            f"fedsim-{PROJECT['project']['version']}.dist-info",
        }

    def test_the_wheel_holds_all_code_and_data(self, wheel: Path) -> None:
        names = set(zipfile.ZipFile(wheel).namelist())
        for name, path in MODULES.items():
            inside = name.replace(".", "/") + ("/__init__" if path.stem == "__init__" else "")
            assert f"{inside}.py" in names
        files = ROOT.glob("scenarios/**/*.yaml")
        configurations = {f"fedsim/{path.relative_to(ROOT).as_posix()}" for path in files}
        assert len(configurations) >= 2
        assert configurations | {"fedsim/py.typed"} <= names


def error_classes() -> list[type[FedsimError]]:
    """Return every error class of the core, once all modules that may define one are imported."""
    for name in CORE:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    found = [FedsimError]
    for known in found:
        found += known.__subclasses__()
    return [kind for kind in found if kind.__module__ in CORE]  # not those of other tests


def test_errors_survive_a_pickle_round_trip() -> None:
    for kind in error_classes():
        parameters = list(inspect.signature(kind.__init__).parameters.values())
        named = [p.name for p in parameters[1:] if p.kind is p.POSITIONAL_OR_KEYWORD]
        error = kind(*(f"the {name}" for name in named or ["message"]))
        back = pickle.loads(pickle.dumps(error))
        assert type(back) is kind
        assert (back.args, vars(back), str(back)) == (error.args, vars(error), str(error)), kind
        assert str(error).startswith("the "), kind
        assert error.exit_code in (2, 3, 4, 130), kind
