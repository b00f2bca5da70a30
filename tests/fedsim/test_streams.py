"""Python's standard streams are open, and the same, after a user's code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fedsim.streams import is_open, streams_kept


class Odd:
    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


@pytest.mark.parametrize("replace", [lambda: None, lambda: 5, Odd, io.StringIO])
def test_streams_that_are_replaced_come_back(replace: Callable[[], Any]) -> None:
    before = sys.stdout, sys.stderr
    with streams_kept():
        sys.stdout = sys.stderr = replace()
    assert (sys.stdout, sys.stderr) == before
    with streams_kept():
        del sys.stdout, sys.stderr
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.parametrize(
    "close",
    [
        lambda stream: stream.close(),
        lambda stream: stream.detach(),
        lambda stream: stream.buffer.close(),
        lambda stream: stream.buffer.detach(),
    ],
)
def test_a_stream_that_is_closed_is_opened_again(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    close: Callable[[io.TextIOWrapper], object],
) -> None:
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        monkeypatch.setattr(sys, name, stream)
    with suppress(KeyError), streams_kept():
        close(sys.stdout)  # type: ignore[arg-type]
        close(sys.stderr)  # type: ignore[arg-type]
        assert not is_open(sys.stdout)
        raise KeyError
    print("out")
    print("err", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    assert capfd.readouterr() == ("out\n", "err\n")


def test_what_was_closed_before_stays_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    closed = (tmp_path / "file").open("w")
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    with streams_kept():
        pass
    assert sys.stdout is closed


def test_without_a_descriptor_what_is_printed_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    fstat = os.fstat

    def no_descriptor(number: int) -> os.stat_result:
        return fstat(-1 if number == 1 else number)

    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(os, "fstat", no_descriptor)
    with streams_kept():
        sys.stdout.close()
    print("lost", flush=True)
    assert sys.stdout.name == os.devnull
    sys.stdout.close()
