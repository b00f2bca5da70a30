"""The logs of a seed, for processes that may run on machines that do not see its folder."""

from __future__ import annotations

import secrets
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from fedsim.errors import Interrupted
from fedsim.files import write_atomically, writing
from fedsim.record.logs import LARGEST, Log, unfinished
from fedsim.record.runfolder import RunFolder

_TOKEN = "state/token"


@dataclass(frozen=True)
class LogFolder:
    """The logs of one seed, for processes that may run on other machines.

    Attributes:
        path: the seed's folder.
        token: what a file in it holds, if a machine sees the same folder.
    """

    path: Path
    token: str

    @classmethod
    def of(cls, folder: RunFolder) -> LogFolder:
        """Return a seed's logs; the folder's file gets a new token."""
        token = secrets.token_hex(8)
        write_atomically(folder.path / _TOKEN, token.encode())
        return cls(folder.path, token)

    @property
    def seen(self) -> bool:
        """Whether this process sees the folder."""
        try:
            return (self.path / _TOKEN).read_text("utf-8") == self.token
        except OSError:
            return False

    def path_of(self, name: str) -> Path:
        """Return the path of a process's log."""
        return RunFolder(self.path).logs / f"{name}.log"

    def open(self, name: str, largest: int = LARGEST) -> Log:
        """Return the log of the process ``name``; without a file, if the folder is elsewhere."""
        return Log(self.path_of(name) if self.seen else None, name, largest)

    def recover(self, name: str, whose: str, into: str) -> str:
        """Move what a process had printed when it died to another log; return its last lines."""
        path = self.path_of(name)
        if not path.exists():
            return ""
        lines = unfinished(path)
        with closing(Log(self.path_of(into), into)) as log:
            log.turn(f"{whose}, which ended then")
            log.write(path.read_text("utf-8", errors="replace"))
        path.unlink()
        return lines

    def keep(self, name: str, printed: bytes) -> None:
        """Add what :meth:`Log.drain` returned on another machine; for who owns the folder."""
        if printed:
            with closing(Log(self.path_of(name), name)) as log:
                log.add(printed)


def remove_empty_logs(seed: Path) -> None:
    """Remove the logs of processes that printed nothing and have ended.

    Args:
        seed: the seed's folder.
    """
    folder = RunFolder(seed).logs
    with suppress(OSError, Interrupted), writing():
        for path in sorted(folder.rglob("*"), reverse=True):
            if path.is_dir() or path.stat().st_size == 0:
                with suppress(OSError):  # a folder that is not empty
                    path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()
