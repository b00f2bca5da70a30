"""What the variants of one or several runs are called in tables and pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fedsim.errors import ConfigError, of_option
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
    if names is not None and len(names) != len(runs):
        raise of_option(
            "--label",
            ConfigError(f"labels: expected one for each of {len(runs)} runs, got {len(names)}"),
        )
    whose = list(names) if names is not None else _folders(runs)
    found = [
        {variant: _called(variant, name, run, len(runs), names) for variant in variants_of(run)}
        for run, name in zip(runs, whose, strict=True)
    ]
    times = Counter(label for one in found for label in one.values())
    for label, count in times.items():
        if count > 1:
            raise of_option(
                "--label",
                ConfigError(f"labels: expected different names of all variants, got {label} twice"),
            )
    return found


def _called(variant: str, name: str, run: Run, runs: int, names: Sequence[str] | None) -> str:
    if names is not None and len(variants_of(run)) == 1:
        return name
    return variant if runs == 1 and names is None else f"{variant} ({name})"


def _folders(runs: Sequence[Run]) -> list[str]:
    """Return the names of the runs' folders; their paths, if two have the same name."""
    paths = [run.folder.resolve() for run in runs]
    names = [path.name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def shortened(labels: Sequence[str], longest: int) -> dict[str, str]:
    """Return short forms of labels, which differ where the labels do.

    If one is too long, all lose the settings that they share; if that is not enough, the keys of
    their settings; at last their middles. What is alike then gets a number.

    Args:
        labels: the labels, such as ``agents=10, rounds=5``.
        longest: how many characters a short form may have.
    """
    whole = list(dict.fromkeys(labels))
    parts = [label.split(", ") for label in whole]
    shared = set.intersection(*map(set, parts)) if len(whole) > 1 else set()
    own = [[part for part in one if part not in shared] for one in parts]
    values = [[part.rpartition("=")[2].strip() for part in one] for one in own]
    cut = [_cut(label, longest) for label in whole]
    for forms in (whole, *([", ".join(one) for one in some] for some in (own, values)), cut):
        if all(forms) and max(map(len, forms)) <= longest and len(set(forms)) == len(forms):
            return dict(zip(whole, forms, strict=True))
    numbered = enumerate(whole, 1)
    return {label: _cut(label, longest - len(f"{n}: "), f"{n}: ") for n, label in numbered}


def _cut(label: str, longest: int, start: str = "") -> str:
    """Return a label without its middle, if it is long."""
    if len(label) <= longest:
        return start + label
    first = longest // 3
    return f"{start}{label[:first]}…{label[len(label) - (longest - first - 1) :]}"
