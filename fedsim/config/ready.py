"""The ready configurations that ship with fedsim."""

from __future__ import annotations

from importlib import resources

from fedsim.errors import ConfigError, nearest


def ready_names() -> list[str]:
    """Return the names of the ready configurations."""
    folder = resources.files("fedsim.scenarios")
    return sorted(
        f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")
    )


def ready_text(name: str) -> str:
    """Return the text of a ready configuration.

    Raises:
        ConfigError: if the name is unknown.
    """
    if name not in ready_names():
        raise ConfigError(f"unknown scenario file {name!r}{nearest(name, ready_names())}")
    return resources.files("fedsim.scenarios").joinpath(f"{name}.yaml").read_text("utf-8")
