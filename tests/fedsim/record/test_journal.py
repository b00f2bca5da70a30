"""The journal survives disk errors and kills."""

from __future__ import annotations

import errno
import json
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.errors import DiskError, RunFolderError
from fedsim.privacy.events import SubsampledGaussian, UnknownEvent
from fedsim.protocol import Uncharged
from fedsim.record.entries import (
    AskEntry,
    Entry,
    Failed,
    Recorded,
    ReleaseEntry,
    StepEntry,
    entry_from_json,
    observations,
)
from fedsim.record.journal import JournalReader, journal_run, open_journal, read_journal
from fedsim.record.lines import LineWriter, cut_torn_line, encode, seal

ENTRIES: list[Entry] = [
    StepEntry(0, (Recorded(0, 0, 0, (0.5,), 1.5, None, "initial"),)),
    AskEntry(0, "share", (0,)),
    ReleaseEntry(0),
]
LINES: list[dict[str, Any]] = [
    {"kind": "step", "t": 0, "observations": [[0, 0, 0, [0.5], 1.5, None, "initial"]]},
    {"kind": "ask", "t": 0, "request": "share", "agents": [0]},
    {"kind": "release", "t": 0},
]


def write(path: Path) -> bytes:
    journal = open_journal(path, "r1")
    for line in LINES:
        journal.append(line)
    journal.close()
    return path.read_bytes()


class FakeFile:
    """An unbuffered file that takes ``room`` bytes, ``at_once`` at a time."""

    def __init__(self, room: int, at_once: int, code: int) -> None:
        self.data = b""
        self.room, self.at_once, self.code = room, at_once, code

    def write(self, data: memoryview) -> int:
        taken = min(len(data), self.at_once, self.room - len(self.data))
        if taken == 0:
            raise OSError(self.code, "No space left on device")
        self.data += bytes(data[:taken])
        return taken


def test_what_is_written_is_read(tmp_path: Path) -> None:
    data = write(tmp_path / "j")
    crc = b"%08x" % zlib.crc32(b'{"kind":"fedsim-journal","format":3,"run":"r1"}\n', 1)
    expected = b'{"kind":"fedsim-journal","format":3,"run":"r1","crc":"%b"}' % crc
    assert data.splitlines()[0] == expected
    assert list(read_journal(tmp_path / "j")) == ENTRIES
    assert [entry.to_json() for entry in ENTRIES] == LINES
    assert [(t, r.y) for t, r in observations(ENTRIES)] == [(0, 1.5)]


@pytest.mark.parametrize(
    "entry",
    [
        StepEntry(3, (), (Failed(1, 2, 0, (0.5,), "own", "raised ValueError"),), (0, 4)),
        AskEntry(-1, "new-keys", (0, 2), (1,)),
        ReleaseEntry(1, SubsampledGaussian(0.5, 1, 2), experimenter={"snr": 0.5}),
        ReleaseEntry(1, Uncharged.ALREADY_PAID, empty=True),
        ReleaseEntry(1, refused=True),
        ReleaseEntry(2, UnknownEvent("later", None, '{"kind": "later", "x": [1, 2]}')),
    ],
)
def test_entries_come_back_exactly(entry: Entry) -> None:
    assert entry_from_json(json.loads(encode(entry.to_json()))) == entry


def test_a_reader_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "j"
    data = write(path)
    ends = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    path.write_bytes(b"")
    reader, read, sizes = JournalReader(path), list[Entry](), list[int]()
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        new = list(reader.read())
        read += new
        sizes += [size] * len(new)
    assert read == ENTRIES
    assert sizes == ends[1:]  # each as soon as its line is whole, and once


@pytest.mark.parametrize("number", [1, 2])
def test_journals_of_earlier_formats_are_read_and_not_continued(
    tmp_path: Path, number: int
) -> None:
    path = tmp_path / "j"
    event: dict[str, Any] = {"kind": "subsampled-gaussian"} if number == 2 else {}
    event |= {"sampling_rate": 0.5, "noise_multiplier": 1.0, "exact_noise_multiplier": 2.0}
    lines = [
        {"kind": "fedsim-journal", "format": number, "run": "r1"},
        {"kind": "release", "t": 0, "event": event},
    ]
    path.write_bytes(b"".join(map(encode, lines)))
    assert list(read_journal(path)) == [ReleaseEntry(0, SubsampledGaussian(0.5, 1, 2))]
    with pytest.raises(
        RunFolderError, match=f"expected a journal of format 3, got {number}: another"
    ):
        open_journal(path, "r1")


@given(
    st.builds(
        Recorded,
        st.integers(0, 10**6),
        st.integers(0, 10**6),
        st.integers(0, 99),
        st.lists(st.floats(0, 1), min_size=1).map(tuple),
        st.floats(allow_nan=False, allow_infinity=False),
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    )
)
def test_evaluations_come_back_exactly(record: Recorded) -> None:
    assert Recorded.from_json(json.loads(encode({"r": record.to_json()}))["r"]) == record


def test_nan_is_never_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"y": float("nan")})


def test_a_line_torn_anywhere_is_cut_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "j"
    data = write(path)
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        whole = data[:size].count(b"\n")
        assert list(read_journal(path)) == ENTRIES[: max(0, whole - 1)]
        journal = open_journal(path, "r1")
        for line in LINES[max(0, whole - 1) :]:
            journal.append(line)
        journal.close()
        assert path.read_bytes() == data


def test_cutting_a_journal_that_is_not_there_does_nothing(tmp_path: Path) -> None:
    cut_torn_line(tmp_path / "j")
    assert not (tmp_path / "j").exists()


def test_a_torn_line_longer_than_a_buffer_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "j"
    data = write(path)
    path.write_bytes(data + b"x" * 300_000)
    cut_torn_line(path)
    assert path.read_bytes() == data


@settings(max_examples=200)
@given(st.data())
def test_a_changed_byte_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Any change of one byte is refused, or leaves a whole beginning of what was written."""
    path = tmp_path_factory.mktemp("journal") / "j"
    written = bytearray(write(path))
    place = data.draw(st.integers(0, len(written) - 1))
    written[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(written)
    found = list[Entry]()
    try:
        for entry in read_journal(path):
            found.append(entry)
    except RunFolderError:
        return
    assert found == ENTRIES[: len(found)]
    assert len(found) >= len(ENTRIES) - 1  # the last newline: a torn line


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda lines: [*lines[:2], *lines[3:]], 3),  # one is missing
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], 3),  # one is there twice
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], 2),  # two are exchanged
        (lambda lines: [*lines[:2], lines[2].replace(b'"share"', b'"chare"'), lines[3]], 3),
        (lambda lines: [*lines[:2], lines[2].partition(b',"crc')[0] + b"}", lines[3]], 3),
    ],
)
def test_lines_that_are_not_what_was_written_there_are_refused(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], line: int
) -> None:
    path = tmp_path / "j"
    lines = change(write(path).splitlines())
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(RunFolderError, match=rf"line {line} is damaged: it.* checksum.*remove"):
        list(read_journal(path))


@pytest.mark.parametrize(
    "bad",
    [
        b'{"kind":"st',
        b"5",
        b'{"t":0}',
        b"\xff\xfe",
        b'{"kind":"step","t":0}',
        b'{"kind":"step","t":0,"observations":[[1,2]]}',
        b'{"kind":"party","t":0}',
        b'{"kind":"release","t":0,"experimenter":5,"event":{"kind":"subsampled-gaussian","x":1}}',
    ],
)
def test_a_damaged_middle_line_is_refused_by_number(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "j"
    lines = write(path).splitlines()
    lines[2] = seal(bad + b"\n", 3).removesuffix(b"\n") if bad.endswith(b"}") else bad
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(RunFolderError, match=r"line 3 is damaged|damaged privacy event"):
        list(read_journal(path))


def test_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(encode({"kind": "fedsim-journal", "format": 99}))
    with pytest.raises(RunFolderError, match=r"expected a journal of format 3, got .*99.*version"):
        list(read_journal(tmp_path / "j"))


def test_an_absent_journal_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="not found; is this the folder of one seed"):
        list(read_journal(tmp_path / "j"))


def test_a_folder_in_its_place_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    with pytest.raises(RunFolderError, match=r"j: cannot be written: Is a directory") as caught:
        open_journal(tmp_path / "j", "r1")
    assert caught.value.exit_code == 2
    with pytest.raises(RunFolderError, match="cannot be read"):
        list(read_journal(tmp_path / "j"))


@pytest.fixture
def on_fake(tmp_path: Path) -> Callable[[FakeFile], LineWriter]:
    def make(file: FakeFile) -> LineWriter:
        writer = LineWriter(tmp_path / "j")
        writer.close()
        writer._file = file  # type: ignore[assignment]
        return writer

    return make


def test_short_writes_are_continued(on_fake: Callable[[FakeFile], LineWriter]) -> None:
    file = FakeFile(10**6, 3, 0)
    on_fake(file).append(LINES[0])
    assert file.data == encode(LINES[0])


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS])
def test_a_full_disk_is_a_failed_run_that_can_be_resumed(
    on_fake: Callable[[FakeFile], LineWriter], code: int
) -> None:
    file = FakeFile(12, 5, code)
    words = f"{re.escape(os.strerror(code))}; what was recorded is kept: .*, then resume the run"
    with pytest.raises(DiskError, match=words) as caught:
        on_fake(file).append(LINES[0])
    assert caught.value.exit_code == 3
    assert file.data == encode(LINES[0])[:12]


def test_the_journal_of_other_settings_is_refused(tmp_path: Path) -> None:
    open_journal(tmp_path / "j", "r1").close()
    open_journal(tmp_path / "j", "r1").close()
    with pytest.raises(RunFolderError, match=r"or to other settings, than config\.yaml"):
        open_journal(tmp_path / "j", "r2")


@pytest.mark.parametrize("header", [b"", b"nonsense\n", b"[1]\n", b'{"kind":"fedsim-jour'])
def test_a_damaged_header_names_no_run(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "j").write_bytes(header)
    assert journal_run(tmp_path / "j") == ""
