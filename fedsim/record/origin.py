"""Where a run comes from: the folders of its modules and data, and the user's code that it runs.

``origin.yaml`` holds the folders and the SHA-256 of every module, after a checksum of all that;
``code/`` holds the modules, and ``code-2/`` those of the first resume with others. They are a
record, and never imported: a resume reads the files that they were copied from, and says if those
have changed. Classes and objects that were given in Python (see :mod:`fedsim.usercode.given`) are
recorded by name and source; to resume such a run is for a process that has them.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fedsim.errors import RunFolderError, listed
from fedsim.files import NOISE_CONTROL, RESTORE, read_yaml, slugify, write_atomically
from fedsim.fingerprints import fingerprint_keys
from fedsim.record.layout import seed_folders
from fedsim.systemerrors import cannot_write
from fedsim.usercode.sources import UserCode

FILE = "origin.yaml"


@dataclass(frozen=True)
class Origin:
    """What ``origin.yaml`` holds.

    Attributes:
        import_from: the folders that ``module:Class`` names are looked for in.
        data_dir: the folder of the data sets, or None.
        modules: each module's SHA-256, by name.
        given: the classes and objects that the run was given in Python, by name: ``kind`` (class
            or object), the SHA-256 of the ``source``, and a hash of an object's ``state``; the
            hashes are empty if they are not known.
        variants: the variants in order, as far as they are known: by label, the fingerprint of
            their settings; it is empty if an earlier version of fedsim started the run.
        seeds: the seeds, with those that a resume added; empty as above.
        keys: a fingerprint of each key of ``config.yaml`` that no resume may change; as above.
    """

    import_from: tuple[str, ...]
    data_dir: str | None
    modules: Mapping[str, str]
    given: Mapping[str, Mapping[str, str]]
    variants: Mapping[str, str] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        code: UserCode,
        data_dir: str | None,
        variants: Mapping[str, str],
        config: Mapping[str, Any],
    ) -> Origin:
        """Return the origin of a run of some code, with what ``config.yaml`` holds."""
        given = {name: one.record() for name, one in code.objects.items()}
        modules = {source.name: source.digest for source in code.sources}
        origin = cls(code.folders, data_dir, modules, given, dict(variants))
        return origin.with_config(config)

    def with_config(self, config: Mapping[str, Any]) -> Origin:
        """Return it with another ``config.yaml``."""
        return replace(self, seeds=tuple(config["seeds"]), keys=fingerprint_keys(config))

    @classmethod
    def read(cls, folder: Path) -> Origin:
        """Read the origin of a run folder.

        Raises:
            RunFolderError: if it is not a run folder, or the file is damaged, or was changed.
        """
        if (words := not_a_folder(folder)) is not None:
            raise RunFolderError(words)
        if not (folder / FILE).exists():
            if (folder / "config.yaml").exists() and seed_folders(folder):
                raise RunFolderError(f"{folder / FILE}: is missing; {RESTORE}")
            raise RunFolderError(
                f"{folder}: not a run folder (no {FILE}); give the run folder itself"
            )
        found = read_yaml(folder / FILE, kept=True)
        checksum = found.pop("checksum", None)  # earlier versions had none
        if checksum not in (None, _checksum(found)):
            raise RunFolderError(
                f"{folder / FILE}: was cut or changed after fedsim wrote it; {RESTORE}"
            )
        folders = found.get("import_from")  # earlier versions knew one
        found = {"modules": {}, "given": {}, **found}
        found["import_from"] = [folders] if isinstance(folders, str) else folders
        if "variants" not in found:  # earlier versions left it to the configuration
            variants = read_yaml(folder / "config.yaml", kept=True).get("variants")
            found["variants"] = [*map(str, variants)] if isinstance(variants, dict) else []
        if isinstance(found["variants"], list):  # others had the labels only
            found["variants"] = {str(label): "" for label in found["variants"]}
        try:
            return _origin_type().validate_python(found)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise RunFolderError(
                f"{folder / FILE}: damaged: {where}: {first['msg']}; {RESTORE}"
            ) from error

    def record(self) -> dict[str, Any]:
        """Return what ``origin.yaml`` holds."""
        told: dict[str, Any] = {"import_from": list(self.import_from), "data_dir": self.data_dir}
        given = {name: dict(one) for name, one in self.given.items()}
        told |= {"modules": dict(self.modules), "given": given, "variants": dict(self.variants)}
        told |= {"seeds": list(self.seeds), "keys": dict(self.keys)}
        return {"checksum": _checksum(told), **told}  # first: it is there if the end is cut off

    def differences(self, config: Mapping[str, Any], seeds: Sequence[int]) -> str:
        """Return in which way a configuration is not this run's, in words; empty if it is.

        Args:
            config: what ``config.yaml`` holds.
            seeds: its seeds.

        Raises:
            LookupError, TypeError: if it is damaged.
        """
        found = [*map(str, config.get("variants") or [config["method"]["name"]])]
        known = list(self.variants)
        if config.get("noise_control"):  # it adds variants to those that are named
            known, found = _without_controls(known), _without_controls(found)
        lacks = [label for label in known if label not in found]
        more = [label for label in found if known and label not in known]
        if lacks or more:
            told = [f"lacks the run's {_named(lacks)}"] if lacks else []
            told += [f"has {_named(more)}, which the run does not have"] if more else []
            return " and ".join(told)
        if lost := sorted(set(self.seeds) - set(seeds)):
            return f"lacks the run's seed{'s' * (len(lost) > 1)} {listed(map(str, lost))}"
        now = fingerprint_keys(config)
        changed = [key for key, value in self.keys.items() if now.get(key) != value]
        return f"differs in {listed(changed)} from what the run began with" if changed else ""

    def changes(self, now: Origin) -> list[str]:
        """Return which modules and classes are others now, or cannot be compared."""
        before, after = self._hashes(), now._hashes()
        names = sorted(before.keys() | after.keys())
        return [n for n in names if before.get(n) != after.get(n) or not after.get(n)]

    def _hashes(self) -> dict[str, str]:
        return {**self.modules, **{name: one["source"] for name, one in self.given.items()}}


def _checksum(told: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


@cache
def _origin_type() -> TypeAdapter[Origin]:
    return TypeAdapter(Origin)


def _without_controls(labels: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(label.removesuffix(NOISE_CONTROL) for label in labels))


def _named(labels: Sequence[str]) -> str:
    return f"variant{'s' * (len(labels) > 1)} {listed(labels)}"


def not_a_folder(path: Path) -> str | None:
    """Return why a path cannot be a run folder, and what to do; None if it is a folder."""
    if path.is_dir():
        return None
    told = shlex.quote(str(path))
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return f"{path}: not a run folder, but a configuration: `fedsim run {told}` runs it"
    if path.exists():
        return f"{path}: not a run folder, but a file"
    return f"{path}: not a run folder: there is no such folder; `fedsim runs` lists runs"


def keep_code(folder: Path, code: UserCode) -> Path | None:
    """Copy a run's modules into its folder; return the new folder, or None if there are none.

    Raises:
        RunFolderError: if a file cannot be written.
    """
    if not code.sources and not code.objects:
        return None
    number = sum(1 for _ in folder.glob("code*")) + 1
    kept = folder / ("code" if number == 1 else f"code-{number}")
    for source in code.sources:
        path = kept.joinpath(*source.name.split("."))
        path = path / "__init__.py" if source.places else path.with_suffix(".py")
        if source.file:  # else a folder without __init__.py
            _write(path, source.text)
    for name, given in code.objects.items():
        _write(kept / f"{slugify(name)}.py", given.source.encode())
    return kept


def _write(path: Path, text: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path.parent, error) from error
    write_atomically(path, text)
