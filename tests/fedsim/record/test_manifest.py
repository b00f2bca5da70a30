"""The manifest: what it says about the machine."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from fedsim.record.manifest import _processor


def test_the_processor_is_read_whatever_else_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "processor", lambda: "")  # would start a process
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_bytes(b"vendor: x\nmodel name\t: caf\xe9 3000\n")
    assert _processor(cpuinfo) == "caf\ufffd 3000"
    cpuinfo.write_bytes(b"\n\n")
    for path in (cpuinfo, tmp_path / "none", tmp_path):
        assert _processor(path) == platform.machine()
