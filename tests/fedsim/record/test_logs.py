"""What processes print, whose it is, and how much of it is kept."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.errors import RunFolderError
from fedsim.record.logs import LAST_LINES, Log, Printed, captured, copied, read_log, unfinished


def turns(path: Path) -> list[tuple[str, str]]:
    return [(one.whose, one.text) for one in read_log(path)]


def test_turns_are_told_apart_and_silent_ones_leave_nothing(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "a.log"
    log = Log(path, "server")
    log.write("early\n")
    for agent in range(50):
        log.turn(f"agent {agent}")
        if agent in (3, 7):
            log.write(f"I am {agent}")
    log.turn("agent 7")  # none other in between is told twice
    log.write("again")
    log.close()
    expected = [("server", "early\n"), ("agent 3", "I am 3\n"), ("agent 7", "I am 7\n")]
    assert turns(path) == [*expected, ("agent 7", "again\n")]


def test_a_silent_process_leaves_no_file(tmp_path: Path) -> None:
    with captured(Log(tmp_path / "a.log", "server")) as log:
        log.turn("agent 0")
    assert list(tmp_path.iterdir()) == []


def test_a_log_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    for whose in ("agent 0", "agent 1"):
        log = Log(path, "server")
        log.turn(whose)
        log.write("hello\n")
        log.close()
    assert turns(path) == [("agent 0", "hello\n"), ("agent 1", "hello\n")]


def test_the_turn_that_has_not_ended(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = Log(path, "server")
    log.turn("agent 0")
    log.write("old\n")
    assert unfinished(path) == "old\n"
    log.turn("agent 1")
    assert (unfinished(path), log.last_lines()) == ("", "")
    log.write("".join(f"{i}\n" for i in range(100)))
    last = "".join(f"{i}\n" for i in range(100 - LAST_LINES, 100))
    assert (unfinished(path), log.last_lines()) == (last, last)
    assert list(read_log(path))[-1].whose == ""
    log.close()
    assert unfinished(path) == ""
    assert unfinished(tmp_path / "none") == ""


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.text(st.characters(codec="utf-8", exclude_characters="\r"))
        ),
        max_size=30,
    )
)
def test_a_large_log_keeps_the_last_lines(
    tmp_path_factory: pytest.TempPathFactory, printed: list[tuple[int, str]]
) -> None:
    """Of every turn that is left, the end is left, under the right name; nothing else is there."""
    path = tmp_path_factory.mktemp("logs") / "a.log"
    log, expected = Log(path, "server", largest=400), list[Printed]()
    for number, (agent, text) in enumerate(printed):
        whose = f"agent {agent}, round {number}"
        log.turn(whose)
        log.write(text)
        if text:
            expected.append(Printed(whose, text if text.endswith("\n") else f"{text}\n"))
    log.turn("")
    assert path.stat().st_size <= 400
    log.close()
    found = list(read_log(path)) if path.exists() else []
    for one, original in zip(found[::-1], expected[::-1], strict=False):
        kept = one.text.removeprefix("--- earlier lines were dropped\n")
        assert one.whose == original.whose
        assert original.text.endswith(kept)
        assert one is found[0] or kept == original.text
    assert len(found) == len(expected) or found[0].text.startswith("--- earlier lines")


def test_a_turn_that_prints_too_much_is_cut_while_it_lasts(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = Log(path, "server", largest=1000)
    log.turn("agent 0")
    log.write("before\n")
    log.turn("agent 1")
    for i in range(1000):
        log.write(f"{i}\n")
        log.check_size()
        assert path.stat().st_size <= 1000
    log.close()
    ((whose, text),) = turns(path)
    assert whose == "agent 1"
    assert text.startswith("--- earlier lines were dropped\n")
    assert text.endswith("998\n999\n")


def test_turns_that_have_ended_are_drained(tmp_path: Path) -> None:
    log = Log(None, "host 0")
    log.turn("agent 0")
    log.write("one\n")
    assert log.drain() == b""
    log.turn("agent 1")
    log.write("two\n")
    assert log.drain() == b"one\n--- above: agent 0\n"
    assert log.last_lines() == "two\n"
    log.turn("")
    assert log.drain() == b"two\n--- above: agent 1\n"
    assert log.drain() == b""
    log.close()


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


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    with pytest.raises(RunFolderError, match=r"logs/a\.log: cannot be written"):
        Log(tmp_path / "logs" / "a.log", "server")
