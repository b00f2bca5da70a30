"""What the variants of one or several runs are called in tables and pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fedsim.errors import ConfigError
from fedsim.results.analysis import Run


def variants_of(run: Run) -> list[str]:
    """Return the labels of a run's variants, in order."""
    return list(dict.fromkeys(one.variant for one in run.runs))


def labels_of(runs: Sequence[Run], names: Sequence[str] | None = None) -> list[dict[str, str]]:
    """Return for each run what its variants are called, by their labels.

    In one run that is the label itself. Of several runs, the run is named too: by its folder, or
    as given; with a given name, a run's only variant needs no label.

    Args:
        runs: the runs.
        names: one for each run, or None.

    Raises:
        ConfigError: if there are not as many names as runs, or two variants get the same one.
    """
    found = [
        {variant: _called(variant, name, run, len(runs), names) for variant in variants_of(run)}
        for run, name in zip(runs, run_names(runs, names), strict=True)
    ]
    times = Counter(label for one in found for label in one.values())
    for label, count in times.items():
        if count > 1:
            raise ConfigError(f"label: expected different names of all variants, got {label} twice")
    return found


def run_names(runs: Sequence[Run], names: Sequence[str] | None = None) -> list[str]:
    """Return what some runs are called: as given, or by their folders.

    Raises:
        ConfigError: if there are not as many names as runs.
    """
    if names is not None and len(names) != len(runs):
        raise ConfigError(f"label: expected one for each of {len(runs)} runs, got {len(names)}")
    return list(names) if names is not None else _folders(runs)


def _called(variant: str, name: str, run: Run, runs: int, names: Sequence[str] | None) -> str:
    if names is not None and len(variants_of(run)) == 1:
        return name
    return variant if runs == 1 and names is None else f"{variant} ({name})"


def _folders(runs: Sequence[Run]) -> list[str]:
    """Return the names of the runs' folders; their paths, if two have the same name."""
    paths = [run.folder.resolve() for run in runs]
    names = [path.name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]
