"""Logs of processes on machines that see the run folder, and of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsim.record.logfolder import LogFolder, remove_empty_logs
from fedsim.record.logs import read_log
from fedsim.record.runfolder import RunFolder


def turns(path: Path) -> list[tuple[str, str]]:
    return [(one.whose, one.text) for one in read_log(path)]


class TestOtherMachines:
    @pytest.fixture
    def logs(self, tmp_path: Path) -> LogFolder:
        folder = RunFolder(tmp_path / "seed-0")
        folder.create({})
        return LogFolder.of(folder)

    def test_who_sees_the_folder_writes_there(self, logs: LogFolder) -> None:
        log = logs.open("host-0")
        log.write("hello\n")
        log.close()
        assert turns(logs.path_of("host-0")) == [("host-0", "hello\n")]

    def test_who_sees_another_folder_sends_what_it_prints(self, logs: LogFolder) -> None:
        later = LogFolder.of(RunFolder(logs.path))  # a folder of that name, of another run
        assert (later.seen, logs.seen) == (True, False)
        log = logs.open("host-0")
        log.turn("agent 3")
        log.write("hello\n")
        log.turn("")
        assert not logs.path_of("host-0").exists()
        logs.keep("host-0", log.drain())
        logs.keep("host-1", log.drain())
        log.close()
        assert turns(logs.path_of("host-0")) == [("agent 3", "hello\n")]
        assert not logs.path_of("host-1").exists()

    def test_a_dead_process_output_is_recovered(self, logs: LogFolder) -> None:
        log = logs.open("running/agent-3")
        log.turn("agent 3")
        log.write("".join(f"{i}\n" for i in range(50)))
        assert logs.recover("running/agent-3", "agent 3", "tasks").endswith("48\n49\n")
        ((whose, text),) = turns(logs.path_of("tasks"))
        assert whose == "agent 3, which ended then"
        assert len(text.splitlines()) == 50
        assert logs.recover("running/agent-3", "agent 3", "tasks") == ""

    def test_what_is_empty_is_removed(self, logs: LogFolder) -> None:
        for name in ("host-0", "running/a"):
            logs.open(name)
        logs.keep("tasks", b"hello\n")
        remove_empty_logs(logs.path)
        assert [path.name for path in RunFolder(logs.path).logs.iterdir()] == ["tasks.log"]
        logs.path_of("tasks").unlink()
        remove_empty_logs(logs.path)
        assert not RunFolder(logs.path).logs.exists()
        remove_empty_logs(logs.path)
