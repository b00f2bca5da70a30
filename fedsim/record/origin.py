"""Where a run comes from: the folders of its modules and data, and the user's code that it runs.

``origin.yaml`` holds the folders and the SHA-256 of every module; ``code/`` holds the modules, and
``code-2/`` those of the first resume with others. They are a record, and never imported: a resume
reads the files that they were copied from, and says if those have changed. Classes and objects that
were given in Python (see :mod:`fedsim.usercode.given`) are recorded by name and source; to resume
such a run is for a process that has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsim.errors import RunFolderError, cannot_write
from fedsim.files import read_yaml, slugify, write_atomically
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
        variants: the labels of the variants, in order; none if an earlier version did not keep
            them.
    """

    import_from: tuple[str, ...]
    data_dir: str | None
    modules: Mapping[str, str]
    given: Mapping[str, Mapping[str, str]]
    variants: tuple[str, ...] = ()

    @classmethod
    def of(cls, code: UserCode, data_dir: str | None, variants: Iterable[str] = ()) -> Origin:
        """Return the origin of a run of some code."""
        given = {name: one.record() for name, one in code.objects.items()}
        modules = {source.name: source.digest for source in code.sources}
        return cls(code.folders, data_dir, modules, given, tuple(variants))

    @classmethod
    def read(cls, folder: Path) -> Origin:
        """Read the origin of a run folder.

        Raises:
            RunFolderError: if it is not a run folder.
        """
        if not (folder / "config.yaml").exists() or not (folder / FILE).exists():
            raise RunFolderError(
                f"{folder}: not a run folder (no {FILE}); give the run folder itself"
            )
        found = read_yaml(folder / FILE)
        folders = found["import_from"]  # earlier versions knew one
        places = (folders,) if isinstance(folders, str) else tuple(folders)
        return cls(
            places,
            found["data_dir"],
            found.get("modules", {}),
            found.get("given", {}),
            tuple(found.get("variants", ())),
        )

    def record(self) -> dict[str, Any]:
        """Return what ``origin.yaml`` holds."""
        told: dict[str, Any] = {"import_from": list(self.import_from), "data_dir": self.data_dir}
        given = {name: dict(one) for name, one in self.given.items()}
        told |= {"modules": dict(self.modules), "given": given, "variants": list(self.variants)}
        return told

    def changes(self, now: Origin) -> list[str]:
        """Return which modules and classes are others now, or cannot be compared."""
        before, after = self._hashes(), now._hashes()
        names = sorted(before.keys() | after.keys())
        return [n for n in names if before.get(n) != after.get(n) or not after.get(n)]

    def _hashes(self) -> dict[str, str]:
        return {**self.modules, **{name: one["source"] for name, one in self.given.items()}}


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
