"""What a shell offers when someone presses Tab; nothing heavy is loaded for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path


def complete_run(incomplete: str) -> list[str]:
    """Return run folders, and the folders on the way to one; usually those in ``runs``."""
    if not incomplete and (found := _paths("runs/", Path.is_dir)):
        return found
    return _paths(incomplete, Path.is_dir)


def complete_source(incomplete: str) -> list[str]:
    """Return what ``fedsim run`` takes: ready configurations and YAML files."""
    return [*complete_ready(incomplete), *_paths(incomplete, _may_lead_to_yaml)]


def complete_ready(incomplete: str) -> list[str]:
    """Return the names of ready configurations."""
    from fedsim.config.ready import ready_names

    return _starting(ready_names(), incomplete)


def complete_scenario(incomplete: str) -> list[str]:
    """Return what ``fedsim evaluate`` takes: scenarios, ready configurations and YAML files."""
    from fedsim.config.registry import SCENARIOS

    found = [*_starting(SCENARIOS, incomplete), *complete_source(incomplete)]
    return list(dict.fromkeys(found))


def complete_assignment(incomplete: str) -> list[str]:
    """Return ``method.name=`` and ``scenario.name=`` with every name."""
    from fedsim.config.registry import METHODS, SCENARIOS

    sections = {"method.name": METHODS, "scenario.name": SCENARIOS}
    found = [f"{key}={name}" for key, names in sections.items() for name in names]
    return _starting(found, incomplete)


def complete_data_set(incomplete: str) -> list[str]:
    """Return the names of data sets."""
    from fedsim.data.catalogue import DATA_SETS

    return _starting(DATA_SETS, incomplete)


def complete_backend(incomplete: str) -> list[str]:
    """Return the names of backends."""
    return _starting(("auto", "serial", "ray"), incomplete)


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _paths(incomplete: str, wanted: Callable[[Path], bool]) -> list[str]:
    """Return the paths that start like this; ``/`` follows a folder in which to go on."""
    start = incomplete.rpartition("/")[2]
    before = incomplete.removesuffix(start)
    try:
        names = sorted(p.name for p in Path(before or ".").iterdir() if wanted(p))
    except OSError:
        return []
    visible = [name for name in names if start.startswith(".") or not name.startswith(".")]
    return [_ended(f"{before}{name}") for name in visible if name.startswith(start)]


def _ended(path: str) -> str:
    here = Path(path)
    return f"{path}/" if here.is_dir() and not (here / "origin.yaml").exists() else path


def _may_lead_to_yaml(path: Path) -> bool:
    return path.suffix in (".yaml", ".yml") or path.is_dir()
