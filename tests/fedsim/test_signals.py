"""Signals that stop a process: said once, with the right exit code, and not to its children."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.util.processes import PATIENCE

pytestmark = pytest.mark.heavy


def printed(code: str, *shell: str) -> list[str]:
    """Return the lines that a fresh process prints."""
    start = "import os, signal, sys\nfrom fedsim.signals import StopSignals\n"
    command = [*shell, sys.executable, "-c", start + code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_first_one_is_told_and_the_next_do_not_disturb() -> None:
    code = """
for number in (signal.SIGTERM, signal.SIGHUP):
    (stops := StopSignals()).listen()
    print(stops.exit_code)
    try:
        signal.raise_signal(number)
    except KeyboardInterrupt as error:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
        print(error, stops.exit_code)
"""
    assert printed(code) == ["130", "stopped by SIGTERM 143", "130", "stopped by SIGHUP 129"]


def test_ctrl_c_twice_in_a_moment_is_once() -> None:
    code = """
from fedsim import signals
(stops := StopSignals()).listen()
def interrupt():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:
        print("stopped", stops.words, stops.exit_code)
    else:
        print("calm")
for calm in (1000.0, 0.0):
    signals.REPEAT_SECONDS = calm
    interrupt()
    interrupt()
if (child := os.fork()) == 0:
    print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    stopped = "stopped stopped by Ctrl-C 130"
    found = printed(
        code.replace(
            "import signals", "import signals\nsys.stdout.reconfigure(line_buffering=True)"
        )
    )
    assert found == [stopped, "calm", stopped, stopped, "True"]


def test_ctrl_c_at_the_end_keeps_the_exit_code() -> None:
    code = """
import time
class Last:  # goes after all handlers
    def __del__(self, kill=os.kill, own=os.getpid(), number=signal.SIGINT):
        kill(own, number)
last = Last()
StopSignals().listen()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("stopped")
"""
    assert printed(code) == ["stopped"]


def test_what_was_ignored_stays_ignored() -> None:
    code = "StopSignals().listen(); signal.raise_signal(signal.SIGHUP); print('here')"
    assert printed(code, "nohup") == ["here"]


def test_forked_children_die_as_their_parent_expects() -> None:
    """Also in the worker's thread, from which objectives fork."""
    code = """
import threading
StopSignals().listen()
def fork():
    if (child := os.fork()) == 0:
        signal.pause()
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
fork()
thread = threading.Thread(target=fork)
thread.start()
thread.join()
print(signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)
"""
    assert printed(code) == ["-15", "-15", "True"]


def test_a_handler_of_the_users_own_survives_in_children() -> None:
    code = """
StopSignals().listen()
signal.signal(signal.SIGTERM, lambda number, frame: os._exit(7))
if (child := os.fork()) == 0:
    signal.raise_signal(signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert printed(code) == ["7"]


def test_the_words_are_known_where_the_exception_has_lost_them() -> None:
    code = """
from fedsim.signals import why_stopped
print(why_stopped(KeyboardInterrupt()))
StopSignals().listen()
print(why_stopped(KeyboardInterrupt()), why_stopped(RuntimeError("enough")))
try:
    signal.raise_signal(signal.SIGHUP)
except KeyboardInterrupt:
    print(why_stopped(KeyboardInterrupt()))
"""
    assert printed(code) == [
        "stopped by Ctrl-C",
        "stopped by Ctrl-C enough",
        "stopped by SIGHUP",
    ]


def test_a_deferred_stop_comes_after_the_block() -> None:
    """Also if the system gives it to another thread, and with handlers that are not fedsim's."""
    code = """
import threading
from fedsim.signals import stops_deferred
threading.Thread(target=threading.Event().wait, daemon=True).start()
def stop(number):
    before = signal.getsignal(number)
    try:
        with stops_deferred():
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
            print("whole", flush=True)
        print("too late")
    except KeyboardInterrupt as error:
        print("stopped", error)
    print(signal.getsignal(number) == before)
stop(signal.SIGINT)
StopSignals().listen()
stop(signal.SIGINT)
stop(signal.SIGTERM)
"""
    by_ctrl_c = ["whole", "stopped ", "True"]
    assert printed(code) == [*by_ctrl_c, *by_ctrl_c, "whole", "stopped stopped by SIGTERM", "True"]


def test_stops_are_deferred_in_the_main_thread_only() -> None:
    code = """
import threading
from fedsim.signals import stops_deferred
def elsewhere():
    with stops_deferred():
        print("here")
(thread := threading.Thread(target=elsewhere)).start()
thread.join()
with stops_deferred():
    print("nothing came")
"""
    assert printed(code) == ["here", "nothing came"]


def test_what_ends_the_process_at_once_is_left_alone() -> None:
    code = """
from fedsim.signals import stops_deferred
if (child := os.fork()) == 0:
    with stops_deferred():
        signal.raise_signal(signal.SIGTERM)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert printed(code) == ["-15"]
