"""The width of what is printed."""

from __future__ import annotations

import pytest

from fedsim.cli.consoles import USUAL_COLUMNS, make_console
from fedsim.cli.streams import LEAST_COLUMNS, forget_impossible_size


class TestASizeThatIsNone:
    @pytest.mark.parametrize("given", [0, 1, LEAST_COLUMNS - 1])
    def test_a_console_takes_it_as_unknown(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: int
    ) -> None:
        monkeypatch.setenv("COLUMNS", str(given))
        monkeypatch.setenv("LINES", "0")
        console = make_console()
        assert console.width == USUAL_COLUMNS
        console.print("a word")
        assert capsys.readouterr().out == "a word\n"

    @pytest.mark.parametrize("given", [LEAST_COLUMNS, 81])
    def test_others_are_followed(self, monkeypatch: pytest.MonkeyPatch, given: int) -> None:
        monkeypatch.setenv("COLUMNS", str(given))
        assert make_console().width == given

    def test_the_environment_is_without_it(self) -> None:
        """For libraries that print by themselves, such as the command line's help."""
        environ = {"COLUMNS": "0", "LINES": "0", "TERM": "dumb"}
        forget_impossible_size(environ)
        assert environ == {"TERM": "dumb"}
        for usual in ({"COLUMNS": "100", "LINES": "40"}, {"COLUMNS": "wide"}, {}):
            environ = dict(usual)
            forget_impossible_size(environ)
            assert environ == usual
