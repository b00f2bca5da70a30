"""The live view of a notebook: one output, and only when there is something to see."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedsim.cli import notebook
from fedsim.cli.notebook import NotebookView, html


class Shown:
    """Stands for IPython's display: every output with all that it has shown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.outputs: list[list[str]] = []
        fake: Any = ModuleType("IPython.display")
        fake.HTML, fake.display = str, self.display
        monkeypatch.setitem(sys.modules, "IPython.display", fake)

    def display(self, text: str, *, display_id: bool) -> Any:
        assert display_id
        self.outputs.append([text])
        return self

    def update(self, text: str) -> None:
        self.outputs[-1].append(text)


def test_it_draws_into_one_output_and_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "REFRESH_SECONDS", 0.001)
    shown = Shown(monkeypatch)
    drawn = iter([Text(""), Text("one"), Text("one"), Text("two")])
    last = [Text("")]

    def drawing() -> RenderableType:
        last[:] = [next(drawn, last[0])]
        return last[0]

    view = NotebookView(drawing)
    view.start()
    while last[0].plain != "two":
        view._stopped.wait(0.001)
    view.stop()
    (output,) = shown.outputs
    assert output == [html(Text("one")), html(Text("two"))]
    assert not view._thread.is_alive()


def test_nothing_to_see_is_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown(monkeypatch)
    view = NotebookView(Table.grid)
    view.start()
    view.stop()
    assert shown.outputs == []


def test_text_and_bars_become_html() -> None:
    table = Table.grid()
    table.add_row(Text("a < b"), ProgressBar(2, 1, 8))
    text = html(table)
    assert text.startswith("<pre")
    assert "a &lt; b" in text
    assert "━" in text
