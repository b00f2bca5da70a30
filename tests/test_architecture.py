"""The rooms of the source tree: which module is in which, and which way their imports point.

docs/architecture.md describes the same; the last test compares the page with the tree.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {"fedsim": "fedsim", **{f"fedsim.{r}": r for r in ("actors", "scenarios", "dashboards")}}

GROUND = (
    "errors",
    "signals",
    "streams",
    "systemerrors",
    "rng",
    "keys",
    "fingerprints",
    "arguments",
    "space",
    "means",
    "memo",
    "protocol",
    "workload",
    "payloads",
    "resources",
    "usercode",
    "acquisition",
    "yamltext",
    "files",
)
TOP = ("runner", "testing")

# The levels inside fedsim/, low to high, and the modules or packages of each room. A room imports
# only from lower levels; rooms of one level do not import one another.
LEVELS: tuple[dict[str, tuple[str, ...]], ...] = (
    {"ground": GROUND},
    {"surrogates": ("surrogates",)},
    {"privacy": ("privacy",)},
    {"crypto": ("crypto",)},
    {"methods": ("methods",), "data": ("data",)},
    {"config": ("config",), "record": ("record",)},
    {"simulation": ("simulation",)},
    {"results": ("results",)},
    {"running": ("running",)},
    {"top": TOP},
    {"cli": ("cli", "__main__")},
    {"api": ("api",)},
)
INSIDE = [room for level in LEVELS for room in level]

# Rooms that may import less, or other things, than their level says.
EXPLICIT = {
    "results": {"ground", "privacy", "record"},
    "actors": set(INSIDE) - {"cli", "api"},
    "scenarios": {"ground", "data"},
    "dashboards": {"ground", "results"},
}

# What imports Ray or matplotlib is imported by these only, and only inside a function.
LAZY_ROOMS = {"actors", "dashboards"}
LAZY_IMPORTERS = ("fedsim.cli", "fedsim.running.placement", "fedsim.running.execution")


def allowed(room: str) -> set[str]:
    """Return the rooms that a room may import from, itself included."""
    if room in EXPLICIT:
        return EXPLICIT[room] | {room}
    below: set[str] = set()
    for level in LEVELS:
        if room in level:
            return below | {room}
        below |= level.keys()
    raise AssertionError(f"{room} is not a room")


def module_files() -> dict[str, Path]:
    """Return every module of the package by its import name."""
    files = {}
    for package, folder in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            files[".".join((package, *parts)).removesuffix(".__init__")] = path
    return files


MODULES = module_files()
ROOM_OF = {entry: room for level in LEVELS for room, entries in level.items() for entry in entries}
ROOM_OF |= {room: room for room in ("actors", "scenarios", "dashboards")}


def room_of(module: str) -> str:
    """Return the room that a module is in; the package itself is the door to its uppermost."""
    return "api" if module == "fedsim" else ROOM_OF[module.split(".")[1]]


def imports(source: str) -> Iterator[tuple[str, bool]]:
    """Yield what a text imports from fedsim, wherever, and whether that is inside a function."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)

    def walk(node: ast.AST, lazily: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            names: list[str] = []
            if isinstance(child, ast.Import):
                names = [alias.name for alias in child.names]
            elif isinstance(child, ast.ImportFrom):
                origin = child.module or ""
                inner = [f"{origin}.{alias.name}" for alias in child.names]
                names = [name if name in MODULES else origin for name in inner]
            for name in names:
                if name == "fedsim" or name.startswith("fedsim."):
                    yield name, lazily
            yield from walk(child, lazily or isinstance(child, functions))

    return walk(ast.parse(source), False)


def wrong_imports(module: str, source: str) -> list[str]:
    """Return what a module imports and may not, in words."""
    own = room_of(module)
    wrong = []
    for name, lazily in dict.fromkeys(imports(source)):
        room = room_of(name)
        if room in allowed(own) or module == "fedsim":  # it names what it offers, to type checkers
            continue
        if room in LAZY_ROOMS and f"{module}.".startswith(tuple(f"{n}." for n in LAZY_IMPORTERS)):
            if not lazily:
                wrong.append(f"{module}: imports {name} at its top, expected inside a function")
            continue
        wrong.append(f"{module}: {own} may not import {name} ({room})")
    return wrong


def test_the_guard_sees_every_way_to_import() -> None:
    text = (
        "import fedsim.cli.main\n"
        "if TYPE_CHECKING:\n  from fedsim.runner import run\n"
        "def f():\n  from fedsim import errors\n  from fedsim import run\n  import numpy"
    )
    assert list(imports(text)) == [
        ("fedsim.cli.main", False),
        ("fedsim.runner", False),
        ("fedsim.errors", True),
        ("fedsim", True),
    ]


@pytest.mark.parametrize(
    ("module", "text", "refused"),
    [
        ("fedsim.space", "import fedsim.rng", False),
        ("fedsim.space", "import fedsim.privacy.events", True),
        ("fedsim.record.journal", "import fedsim.config.spec", True),
        ("fedsim.config.spec", "import fedsim.record.journal", True),
        ("fedsim.results.tables", "import fedsim.simulation.loop", True),
        ("fedsim.scenarios.landmine", "import fedsim.data.datasets", False),
        ("fedsim.scenarios.landmine", "import fedsim.surrogates.kernels", True),
        ("fedsim.dashboards.plots", "import fedsim.record.journal", True),
        ("fedsim.actors.host", "import fedsim.simulation.agents", False),
        ("fedsim.actors.host", "import fedsim.cli.main", True),
        ("fedsim.running.execution", "def f():\n  import fedsim.actors.launch", False),
        ("fedsim.running.execution", "import fedsim.actors.launch", True),
        ("fedsim.running.jobs", "def f():\n  import fedsim.actors.launch", True),
        ("fedsim.runner", "def f():\n  import fedsim.scenarios.landmine", True),
    ],
)
def test_the_guard_knows_the_arrows(module: str, text: str, refused: bool) -> None:
    assert bool(wrong_imports(module, text)) == refused


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str) -> None:
    wrong = wrong_imports(module, MODULES[module].read_text("utf-8"))
    assert not wrong, "\n".join(wrong)


def test_every_module_is_in_a_room() -> None:
    inside = {name.split(".")[1] for name in MODULES if name != "fedsim"}
    assert inside == ROOM_OF.keys(), "give it a room in LEVELS and in docs/architecture.md"


def test_the_page_lists_the_rooms_of_the_tree() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = re.search(r"^\| room \|.*?\n\n", page, re.MULTILINE | re.DOTALL)
    assert table, "expected a table whose first column is called room"
    rows = re.findall(r"^\| (`.*?`) \|", table[0], re.MULTILINE)
    told = [entry for row in rows for entry in re.findall(r"`(.*?)`", row)]
    inside = [entry for level in LEVELS for entries in level.values() for entry in entries]
    folders = [entry for entry in inside if (ROOT / "fedsim" / entry).is_dir()]
    expected = [f"{entry}/" if entry in folders else f"{entry}.py" for entry in inside]
    assert told == [*expected, "actors/", "scenarios/", "dashboards/"]
