"""What this process prints goes to its log."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from fedsim.record.capture import captured, copied, standard_kept
from fedsim.record.logs import Log, read_log
from fedsim.simulation.calls import Activity
from fedsim.streams import streams_kept

Keep = Callable[[Log], AbstractContextManager[Log]]


def turns(path: Path) -> list[tuple[str, str]]:
    return [(one.whose, one.text) for one in read_log(path)]


def test_all_that_the_process_prints_is_captured(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    print("before")
    with captured(Log(tmp_path / "a.log", "server")) as log:
        log.turn("agent 0")
        print("printed", end="")
        log.turn("agent 1")
        print("an error", file=sys.stderr)
        logging.StreamHandler().emit(logging.LogRecord("", 30, "", 0, "logged", None, None))
        os.write(1, b"as C code would\n")
        thread = threading.Thread(target=print, args=("in a thread",))
        thread.start()
        thread.join()
    print("after")
    assert turns(tmp_path / "a.log") == [
        ("agent 0", "printed\n"),
        ("agent 1", "an error\nlogged\nas C code would\nin a thread\n"),
    ]
    assert capfd.readouterr() == ("before\nafter\n", "")


@pytest.mark.heavy
def test_what_other_processes_print_is_captured(tmp_path: Path) -> None:
    with captured(Log(tmp_path / "a.log", "server")) as log:
        log.turn("agent 0")
        subprocess.run([sys.executable, "-c", "print('hello')"], check=True)
    assert turns(tmp_path / "a.log") == [("agent 0", "hello\n")]


def test_streams_come_back_after_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        with captured(Log(tmp_path / "a.log", "server")):
            print("gone")
            raise ValueError("mine")

    before = sys.stdout, sys.stderr
    with pytest.raises(ValueError, match="mine"):
        fail()
    assert (sys.stdout, sys.stderr) == before
    os.write(1, b"here\n")
    assert capfd.readouterr().out == "here\n"
    assert turns(tmp_path / "a.log") == [("server", "gone\n")]


def test_a_threads_prints_are_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with copied(Log(tmp_path / "a.log", "server")) as log:
        kept = sys.stdout
        log.turn("agent 0")
        print("mine")
        thread = threading.Thread(target=print, args=("another's",))
        thread.start()
        thread.join()
        assert sys.stdout.isatty() is False
    print("after")
    # Whoever still holds the stream does not write into a file that was opened since.
    with (tmp_path / "other").open("w"):
        kept.write("late\n")
    assert (tmp_path / "other").read_text() == ""
    assert capsys.readouterr().out == "mine\nanother's\nafter\nlate\n"
    assert turns(tmp_path / "a.log") == [("agent 0", "mine\n")]


@pytest.mark.parametrize("keep", [captured, copied])
def test_streams_that_a_turn_closes_are_opened_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], keep: Keep
) -> None:
    activity = Activity()
    with keep(Log(tmp_path / "a.log", "server")) as activity.log:
        for agent in (0, 1):
            with activity.turn(agent, 1):
                print("printed")
                sys.stdout.flush()
                os.close(1)
                os.close(2)
            with (tmp_path / "file").open("w") as file:
                assert file.fileno() > 2
    print("after")
    assert turns(tmp_path / "a.log") == [
        ("agent 0, round 1", "printed\n"),
        ("agent 1, round 1", "printed\n"),
    ]
    assert capfd.readouterr().out == ("printed\n" * 2 if keep is copied else "") + "after\n"


@pytest.mark.parametrize("keep", [captured, copied])
def test_a_turn_cannot_close_pythons_streams(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keep: Keep
) -> None:
    with keep(Log(tmp_path / "a.log", "server")) as log:
        for turn in ("first", "second"):
            log.turn(turn)
            print("printed")
            sys.stdout.close()
            sys.stderr.close()
    print("after")
    assert turns(tmp_path / "a.log") == [("first", "printed\n"), ("second", "printed\n")]
    assert capsys.readouterr().out == ("printed\n" * 2 if keep is copied else "") + "after\n"


@pytest.mark.parametrize("keep", [captured, copied])
def test_a_log_ends_though_a_stream_was_replaced_by_something_odd(
    tmp_path: Path, keep: Keep
) -> None:
    class Odd:
        def __getattr__(self, name: str) -> object:
            raise KeyError(name)

        def __eq__(self, other: object) -> bool:
            raise RuntimeError

    with streams_kept(), keep(Log(tmp_path / "a.log", "server")):
        print("printed", flush=True)
        sys.stdout = Odd()
        del sys.stderr
    assert turns(tmp_path / "a.log") == [("server", "printed\n")]


def test_streams_go_where_they_did_before(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with standard_kept(), (tmp_path / "elsewhere").open("w") as file:
        os.dup2(file.fileno(), 1)
        os.close(2)
    print("here")
    print("an error", file=sys.stderr)
    assert capfd.readouterr() == ("here\n", "an error\n")
    assert (tmp_path / "elsewhere").read_text() == ""
