"""The journal: an append-only, deterministic record of everything that happened in a run.

One JSON object per line. The first line names the format and the run; then, for every call of
the fleet:

- ``step``: the observations of all agents that took part, which evaluations failed and were
  skipped, and who was absent;
- ``ask``: a request without a step, the agents that were asked, and who was absent;
- ``release``: what an aggregator released, its privacy event and diagnostics for the
  experimenter, written after the observations that it is based on.

Every line ends with its checksum, so that a value that was changed later is never read.
Two runs of one configuration and seed have equal journals, byte for byte, on any backend and
after any kill and resume. Programs cannot read it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from fedsim.errors import RunFolderError
from fedsim.record.entries import Entry, Line, entry_from_json
from fedsim.record.lines import LineWriter, unseal
from fedsim.record.remedies import RESTART, of_damaged_line
from fedsim.systemerrors import cannot_read

FORMAT = 3
READABLE = (1, 2, FORMAT)
"""Format 1 had no kinds of privacy events: all were subsampled Gaussians. 2 had no checksums."""


def open_journal(path: Path, fingerprint: str) -> LineWriter:
    """Return a journal's writer; every line is on disk as soon as it is written.

    Args:
        path: the file; created with its header if it does not exist.
        fingerprint: the run's fingerprint.

    Raises:
        RunFolderError: if it cannot be written, or belongs to another run or format.
    """
    check_journal(path, fingerprint)
    writer = LineWriter(path, sync=True, sealed=True)
    if writer.empty:
        writer.append({"kind": "fedsim-journal", "format": FORMAT, "run": fingerprint})
    return writer


def check_journal(path: Path, fingerprint: str) -> None:
    """Check that a journal, if there is one, can be continued by a run.

    Raises:
        RunFolderError: if it is the journal of another run or format.
    """
    header = _header(path)
    if not header:
        return
    if header.get("format") != FORMAT:
        raise RunFolderError(
            f"{path}: expected a journal of format {FORMAT}, got {header.get('format')}: another "
            "version of fedsim started this run; resume it with that version, or start a new run"
        )
    if header.get("run") != fingerprint:
        raise RunFolderError(
            f"{path}: belongs to another seed, or to other settings, than config.yaml of the run; "
            f"{RESTART}"
        )


def journal_run(path: Path) -> str:
    """Return the fingerprint of the run that a journal belongs to; empty if there is none."""
    return str(_header(path).get("run", ""))


def journal_sha256(path: Path) -> str:
    """Return the hash of a whole journal; raises OSError if it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _header(path: Path) -> Line:
    """Return the first line; empty if it is absent, torn or damaged."""
    try:
        with path.open("rb") as file:
            raw = file.readline()
        found = json.loads(raw) if raw.endswith(b"\n") else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class JournalReader:
    """Reads a journal's entries, each once; later calls return only what was added since.

    Args:
        path: the journal.

    Attributes:
        torn: whether the last reading ended at an incomplete line.
        line: how many lines were read; after an error the one that is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.line = 0
        self._sealed = False
        self._sha256 = hashlib.sha256()
        self.torn = False

    @property
    def sha256(self) -> str:
        """The hash of the lines read so far."""
        return self._sha256.hexdigest()

    def read(self) -> Iterator[Entry]:
        """Yield the entries that were not read yet; an incomplete last line is left for later.

        Raises:
            RunFolderError: if the file does not exist, is not a journal, has another format, or is
                damaged before its last line.
        """
        self.torn = False
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                for raw in file:
                    if not raw.endswith(b"\n"):
                        self.torn = True  # the writer was killed, or is still writing
                        return
                    self._offset += len(raw)
                    self._sha256.update(raw)
                    self.line += 1
                    line = self._parsed(raw)
                    if self.line == 1:
                        self._check_header(line, raw)
                    else:
                        yield self._entry(line, raw)
        except FileNotFoundError as error:
            raise RunFolderError(
                f"{self._path}: not found; is this the folder of one seed?"
            ) from error
        except OSError as error:
            raise cannot_read(self._path, error) from error

    def _parsed(self, raw: bytes) -> Line:
        try:
            line = unseal(raw, self.line, needed=self._sealed)
        except ValueError as error:
            raise self._damaged(str(error)) from error
        if not isinstance(line, dict) or "kind" not in line:
            raise self._damaged(repr(raw[:60]))
        return line

    def _check_header(self, line: Line, raw: bytes) -> None:
        if line["kind"] != "fedsim-journal":
            raise self._damaged(repr(raw[:60]))
        if line.get("format") not in READABLE:
            raise RunFolderError(
                f"{self._path}: expected a journal of format {FORMAT}, got {raw[:60]!r}; was it "
                "written by another version of fedsim?"
            )
        self._sealed = line["format"] == FORMAT

    def _entry(self, line: Line, raw: bytes) -> Entry:
        try:
            return entry_from_json(line)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._damaged(f"{raw[:60]!r} ({error})") from error

    def _damaged(self, why: str) -> RunFolderError:
        return RunFolderError(
            f"{self._path}: line {self.line} is damaged: {why}; {of_damaged_line(self.line)}"
        )


def read_journal(path: Path) -> Iterator[Entry]:
    """Yield a journal's entries; see :meth:`JournalReader.read`."""
    return JournalReader(path).read()
