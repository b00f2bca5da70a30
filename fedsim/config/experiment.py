"""Experiments: configurations that are read, checked and ready to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsim.config.model import Config, RetryConfig, parse_config
from fedsim.config.reading import apply_overrides, read_config
from fedsim.config.ready import ready_names
from fedsim.config.spec import RunSpec
from fedsim.config.targets import calibrated
from fedsim.config.variants import expand_variants
from fedsim.config.words import short
from fedsim.data.datasets import existing_folder
from fedsim.errors import ConfigError
from fedsim.files import current_folder, user_path
from fedsim.streams import streams_kept
from fedsim.usercode.given import PLAIN, code_of, name_of, named
from fedsim.usercode.sources import UserCode


@dataclass(frozen=True)
class Experiment:
    """A checked configuration, ready to run.

    Attributes:
        config: the whole configuration, with all defaults filled in.
        variants: one configuration per variant.
        code: the user's modules that it names.
        data_dir: the folder of the data sets, or None.
    """

    config: Config
    variants: Mapping[str, Config]
    code: UserCode
    data_dir: str | None

    @property
    def jobs(self) -> int:
        """The number of jobs: one per variant and seed."""
        return sum(len(variant.seeds) for variant in self.variants.values())

    def spec(self, variant: Config, seed: int) -> RunSpec:
        """Return what a process needs to build one seed of a variant."""
        available, on_error = variant.availability, variant.on_error
        return RunSpec(
            variant.scenario,
            variant.method,
            variant.rounds,
            seed,
            self.data_dir,
            self.code,
            availability=tuple(available) if isinstance(available, list) else available,
            retries=on_error.retry if isinstance(on_error, RetryConfig) else 0,
            skip_failures=on_error == "skip",
            resources=variant.resources,
        )


@streams_kept()
def prepare(
    source: str | Path | Mapping[str, Any] | None,
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
    *,
    scenario: object = None,
    method: object = None,
) -> Experiment:
    """Read and check a configuration, and calibrate the noise for its privacy targets.

    Args:
        source: a file, the name of a ready configuration, a mapping, or None for the default.
            The modules that it names are looked for beside the file, then in the current folder,
            then in the environment.
        overrides: ``dotted.key=value`` assignments.
        data_dir: the folder of the data sets; by default the environment's ``FEDSIM_DATA``.
        scenario: a section, a name, a class or an object: in place of a file's, and together with
            the settings of a mapping, whose caller gives both.
        method: the same, except for an object.

    Raises:
        ConfigError: for the first error found.
    """
    sections = {"scenario": scenario, "method": method}
    chosen = {key: value for key, value in sections.items() if value is not None}
    read = read_config(source)
    if isinstance(source, Mapping):
        chosen = {key: _together(key, read.get(key), value) for key, value in chosen.items()}
    raw, things = named({**read, **chosen})
    raw = apply_overrides(raw, overrides)
    code = code_of(raw, _folders(source), things)
    config = parse_config(raw, code)
    folder = existing_folder(data_dir)
    data = None if folder is None else str(folder)
    return calibrated(Experiment(config, expand_variants(config, code, raw), code, data))


def _together(section: str, written: object, given: object) -> object:
    """Return a mapping's section and the argument beside it as one: nothing is dropped in silence.

    Raises:
        ConfigError: if both have a setting, or two names.
    """
    if written is None:
        return given
    first, second = _as_section(written), _as_section(given)
    for key in sorted(first.keys() & second.keys()):
        was, will = _label(first[key]), _label(second[key])
        if key != "name" or was != will:
            raise ConfigError(
                f"{section}.{key}: given twice, {short(was)} in the configuration and "
                f"{short(will)} by {section}=; keep one of them"
            )
    return {**first, **second}


def _as_section(given: object) -> dict[str, Any]:
    return dict(given) if isinstance(given, Mapping) else {"name": given}


def _label(value: object) -> object:
    return value if isinstance(value, (*PLAIN, Mapping, Sequence)) else name_of(value)


def _folders(source: str | Path | Mapping[str, Any] | None) -> list[Path]:
    """Return where modules are looked for: beside the configuration file, then here."""
    here = current_folder()
    if source is None or isinstance(source, Mapping) or str(source) in ready_names():
        return [here]
    return [user_path(source).absolute().parent, here]
