"""``fedsim``: the command line. Everything that it does can also be done from Python."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated, Any

import typer

from fedsim.cli import best, compare, running, showing
from fedsim.cli.consoles import make_console
from fedsim.cli.data import data_app
from fedsim.cli.privacy import privacy_app
from fedsim.errors import FedsimError, Interrupted, UserCodeError

# typer brings its own copy of click or uses the installed one; this is the one in use.
_ClickException: Any = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="fedsim",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(metadata.version("fedsim"))
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Simulate federated Bayesian optimisation, in this process or on a Ray cluster."""


app.command("run")(running.run)
app.command("resume")(running.resume)
app.command("list")(showing.list_names)
app.command("show")(showing.show)
app.command("init")(showing.init)
app.command("evaluate")(showing.evaluate)
app.command("plot")(showing.plot)
app.command("compare")(compare.compare)
app.command("best")(best.best)
app.add_typer(data_app, name="data")
app.add_typer(privacy_app, name="privacy")


def main() -> None:
    """Run the command line and exit with its exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # treated like Ctrl-C
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters is no error
    code = run_command(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _nobody_reads()
    sys.exit(code)


def run_command(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code.

    Exit codes: 0 done, 2 usage, 3 failed, 4 resources missing, 130 interrupted; 141 if the reader
    of the output has gone (as in ``fedsim list | head -1``).

    Args:
        arguments: the arguments after ``fedsim``.
    """
    errors = make_console(stderr=True)
    try:
        code = app(args=list(arguments), standalone_mode=False)
    except _ClickException as error:
        error.show()
        return 2
    except (typer.Abort, KeyboardInterrupt):
        errors.print("stopped by Ctrl-C", style="bold red", markup=False)
        return Interrupted.exit_code
    except FedsimError as error:
        if isinstance(error, UserCodeError) and error.user_traceback:
            errors.print(error.user_traceback, markup=False, soft_wrap=True)
        errors.print(f"error: {error}", style="bold red", markup=False, soft_wrap=True)
        return error.exit_code
    except (BrokenPipeError, SystemExit):  # rich turns the first into the second
        return _nobody_reads()
    return code if isinstance(code, int) else 0


def _nobody_reads() -> int:
    """Discard buffered output, so that Python's own last flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE
