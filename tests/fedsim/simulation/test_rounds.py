"""A server program that breaks the rules of a round is told so, with its own line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.cli.main import run_command
from fedsim.errors import ProtocolError, UserCodeError
from fedsim.simulation.rounds import CurrentRound
from tests.util.bowl import OURS
from tests.util.small import UserModule, small, write


class TestCurrentRound:
    def test_an_agent_steps_once(self) -> None:
        one = CurrentRound()
        one.begin(3)
        one.step(3, [0, 2])
        one.step(3, [1])
        with pytest.raises(ProtocolError, match=r"no step in round 3, got \[1, 2\] again"):
            one.step(3, [1, 2, 3])
        one.begin(4)
        one.step(4, [0, 1, 2])

    def test_preparations_take_any_number_of_steps(self) -> None:
        one = CurrentRound()
        one.begin(-1)
        for t in (-5, -5, -1):
            one.check(t)
            one.step(t, [0])
        one.end()

    def test_somebody_steps_unless_told_that_nobody_does(self) -> None:
        one = CurrentRound()
        one.begin(0)
        with pytest.raises(ProtocolError, match=r"a call of fleet\.step in round 0, got none"):
            one.end()
        one.step(0, [])
        one.end()


SERVERS = """
    import numpy as np
    from fedsim.methods.random_search import RandomSearch, SilentServer
    from fedsim.protocol import Broadcast, Proposal, Request

    class Method(RandomSearch):
        def server(self):
            return Server()

    class Server(SilentServer):
        def round(self, t, fleet):
            BODY
"""


def run_server(body: str, user_module: UserModule, **changes: Any) -> None:
    name = user_module(SERVERS.replace("BODY", body))
    raw = small(**changes)
    raw["method"]["name"] = f"{name}:Method"
    fedsim.run(raw)


@pytest.mark.parametrize(
    ("body", "words", "line"),
    [
        ("pass", "in round 0: expected a call of fleet.step in round 0, got none", ""),
        (
            "fleet.step(t, None, to=[] if t == 2 else None) if t < 2 else None",
            "in round 2: expected a call of fleet.step",
            "",
        ),
        (
            "fleet.step(t, None); fleet.step(t, None, to=[1])",
            r"in round 0: to: .*no step in round 0, got \[1\] again",
            "to=[1])",
        ),
        ("fleet.step(t + 1, None)", "in round 0: t: expected round 0, got 1", "step(t + 1"),
        ("fleet.step(t, {'a': 1})", "in round 0: message: expected a Broadcast", "{'a': 1}"),
        (
            "fleet.step(t, Broadcast({'a': ['text']}))",
            "in round 0: the server's message: a: expected an array of numbers",
            "['text']",
        ),
        ("fleet.step(t, None, to=[0, 3])", r"to: expected agents 0 to 2, got \[3\]", "[0, 3]"),
        (
            "fleet.step(t, None); return {'a': 'text'}",
            r"the server failed in round 0: what the server's round\(\) returns: expected named "
            r"numbers, such as {'loss': 0.5}, or None, got {'a': 'text'}",
            "",
        ),
        ("fleet.step(t, None); return 3", r"round 0: what .*round\(\) returns: .* got 3\n", ""),
        ("fleet.step(t, None); return 'x'", r"round 0: what .*round\(\) returns: .* got 'x'\n", ""),
    ],
)
def test_mistakes_name_the_method_and_show_its_line(
    here: Path, user_module: UserModule, body: str, words: str, line: str
) -> None:
    with pytest.raises(UserCodeError, match=words) as caught:
        run_server(body, user_module)
    assert str(caught.value).startswith("method 'users_")
    assert line in caught.value.user_traceback
    assert bool(caught.value.user_traceback) == bool(line)
    assert not OURS.search(caught.value.user_traceback)


def test_who_is_absent_has_been_told_too(here: Path, user_module: UserModule) -> None:
    with pytest.raises(UserCodeError, match=r"got \[0, 1, 2\] again"):
        run_server("fleet.step(t, None); fleet.step(t, None)", user_module, availability=0.0)


def test_a_server_may_let_nobody_or_groups_step(here: Path, user_module: UserModule) -> None:
    run_server("fleet.step(t, None, to=[]) if t == 1 else fleet.step(t, None)", user_module)
    run_server("[fleet.step(t, None, to=[agent]) for agent in fleet.members]", user_module)


def test_a_server_that_never_steps_is_no_success(
    here: Path, user_module: UserModule, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = small()
    raw["method"]["name"] = f"{user_module(SERVERS.replace('BODY', 'pass'))}:Method"
    assert run_command(["run", write(raw)]) == 3
    assert "got none; let the agents take a step in every round" in capsys.readouterr().err
