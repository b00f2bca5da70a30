"""A live view in a notebook: one output of the cell, drawn again as long as it changes."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any

from rich.console import Console, RenderableType

REFRESH_SECONDS = 0.5
WIDTH = 100
"""Columns of what is drawn: a notebook does not tell how many it has."""

_STYLE = "white-space: pre; overflow-x: auto; line-height: normal; font-family: monospace"
_HTML = f'<pre style="{_STYLE}">{{code}}</pre>'


class NotebookView:
    """Shows what a function draws, until it is stopped; rich's own needs ``ipywidgets``.

    Args:
        get_renderable: returns what is to be shown now.
    """

    def __init__(self, get_renderable: Callable[[], RenderableType]) -> None:
        self._get_renderable = get_renderable
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._refresh, daemon=True, name="fedsim-view")
        self._output: Any = None
        self._shown = ""

    def start(self) -> None:
        """Start showing."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and leave the last drawing."""
        self._stopped.set()
        self._thread.join()
        self._show()

    def _refresh(self) -> None:
        while not self._stopped.wait(REFRESH_SECONDS):
            self._show()

    def _show(self) -> None:
        """Draw; nothing is shown before there is something to show."""
        from IPython.display import HTML, display

        text = html(self._get_renderable())
        if text in ("", self._shown):
            return
        self._shown = text
        if self._output is None:
            self._output = display(HTML(text), display_id=True)
        else:
            self._output.update(HTML(text))


def html(renderable: RenderableType) -> str:
    """Return something drawn as HTML; empty if nothing of it can be seen."""
    console = Console(
        file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, force_jupyter=False
    )
    console.print(renderable)
    if not console.export_text(clear=False).strip():
        return ""
    return console.export_html(inline_styles=True, code_format=_HTML)
