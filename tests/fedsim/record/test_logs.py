"""Whose output a log holds, and how much of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedsim.errors import RunFolderError
from fedsim.record.logs import LAST_LINES, Log, Printed, read_log, unfinished


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
    log = Log(tmp_path / "a.log", "server")
    log.turn("agent 0")
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_a_log_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    for whose in ("agent 0", "agent 1"):
        log = Log(path, "server")
        log.turn(whose)
        log.write("hello\n")
        log.close()
    assert turns(path) == [("agent 0", "hello\n"), ("agent 1", "hello\n")]


def test_a_process_that_died_in_a_turn_is_told_from_its_successor(tmp_path: Path) -> None:
    (path := tmp_path / "a.log").write_text("old\n--- above: agent 0\nlast words")
    log = Log(path, "host-0")
    log.turn("agent 1")
    log.write("hello\n")
    log.close()
    ended = ("host-0, which ended then", "last words\n")
    assert turns(path) == [("agent 0", "old\n"), ended, ("agent 1", "hello\n")]


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
    assume(not any("--- " in text for _, text in printed))
    for number, (agent, text) in enumerate(printed):
        whose = f"agent {agent}, round {number}"
        log.turn(whose)
        log.write(text)
        if text:
            expected.append(Printed("", whose, text if text.endswith("\n") else f"{text}\n"))
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


def test_of_a_crash_its_beginning_is_shown(tmp_path: Path) -> None:
    before = [f"{i}\n" for i in range(50)]
    crash = ["Fatal Python error: Segmentation fault\n", "  File mine.py, line 3\n"]
    stack = [f"  File ours.py, line {i}\n" for i in range(50)]
    (tmp_path / "a.log").write_text("".join([*before, *crash, *stack]))
    shown = unfinished(tmp_path / "a.log").splitlines(keepends=True)
    assert shown == [*before[-15:], *crash, *stack[:13]]
    assert len(shown) == LAST_LINES


def test_another_process_output_is_added(tmp_path: Path) -> None:
    log = Log(tmp_path / "a.log", "server")
    log.add(b"far\n--- above: agent 3\n")
    log.write("near")
    log.close()
    assert turns(tmp_path / "a.log") == [("agent 3", "far\n"), ("server", "near\n")]


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    with pytest.raises(RunFolderError, match=r"logs/a\.log: cannot be written"):
        Log(tmp_path / "logs" / "a.log", "server")
