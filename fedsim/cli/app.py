"""The commands of ``fedsim``, put together.

What a command needs is imported when it runs: ``fedsim --help`` loads none of it.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fedsim.cli import best, compare, logs, plotting, preparing, reproducing, running, runs, showing
from fedsim.cli.crypto import crypto_app
from fedsim.cli.data import data_app
from fedsim.cli.options import QuietOption, VerboseOption
from fedsim.cli.privacy import privacy_app
from fedsim.cli.privacy_plan import plan_command
from fedsim.errors import Interrupted


class Commands(TyperGroup):
    """The commands; what stops one is an error like any other."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; Typer itself would end with nothing said."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Interrupted(str(error) or "stopped by Ctrl-C") from None


app = typer.Typer(
    name="fedsim",
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        print(metadata.version("fedsim"))
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", help="Show the version.", is_eager=True, callback=_show_version
        ),
    ] = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Simulate federated Bayesian optimisation, in this process or on a Ray cluster."""


app.command("run")(running.run)
app.command("resume")(running.resume)
app.command("runs")(runs.runs)
app.command("show")(showing.show)
app.command("plot")(plotting.plot)
app.command("compare")(compare.compare)
app.command("reproduce")(reproducing.reproduce)
app.command("best")(best.best)
app.command("logs")(logs.logs)
app.command("list")(preparing.list_names)
app.command("init")(preparing.init)
app.command("evaluate")(preparing.evaluate)
app.add_typer(data_app, name="data")
privacy_app.command("plan")(plan_command)
app.add_typer(privacy_app, name="privacy")
app.add_typer(crypto_app, name="crypto")
