"""``fedsim data``: lists and downloads data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsim.cli.completion import complete_data_set
from fedsim.cli.consoles import make_console, print_json, print_text
from fedsim.cli.options import JsonOption, QuietOption
from fedsim.errors import ConfigError, MissingDataError

if TYPE_CHECKING:  # these take long to import, and --help needs none of them
    from rich.console import Console
    from rich.table import Table

    from fedsim.data.catalogue import DataFile, DataSet
    from fedsim.data.datasets import FileStatus

DataOption = Annotated[
    Path | None,
    typer.Option(help="Folder of the data sets; default: FEDSIM_DATA, else the user's cache."),
]

_COLOURS = {"present": "green", "damaged": "bold red", "absent": "dim"}

data_app = typer.Typer(help="List and download data sets.")


@data_app.callback(invoke_without_command=True)
def data_command(
    context: typer.Context, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """List and download data sets; without a command, list them."""
    command = context.invoked_subcommand
    if command is None:
        list_command(data, as_json)
    elif data is not None or as_json:
        raise ConfigError(f"--data, --json: give them after `fedsim data {command}`, not before")


@data_app.command("list")
def list_command(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List every data set with licence, size, origin and whether you have it."""
    from fedsim.data.catalogue import DATA_SETS
    from fedsim.data.datasets import data_folder, existing_folder

    folder = data_folder(existing_folder(data))
    sets = [_record(data_set, folder) for data_set in DATA_SETS.values()]
    if as_json:
        print_json({"folder": str(folder), "data_sets": sets})
        return
    console = make_console()
    console.print(_table(folder, sets))
    for file in (file for one in sets for file in one["files"] if file["problem"]):
        print_text(console, file["problem"], "bold red")


@data_app.command("fetch")
def fetch_command(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="A data set; `fedsim data` lists them.", autocompletion=complete_data_set
        ),
    ],
    data: DataOption = None,
    quiet: QuietOption = False,
) -> None:
    """Download a data set from its original address into its folder, and check it."""
    from fedsim.data.datasets import data_folder, find_data_set, named_folder

    data_set, folder = find_data_set(name), data_folder(named_folder(data))
    console = make_console(stderr=True, quiet=context.obj.quiet)
    status = _first_there(_inspect(data_set.files, folder / name))
    if status is not None and status.state == "present":
        print(f"{name} already exists: {status.path}")
        return
    file = next((file for file in data_set.files if file.url), None)
    if status is not None and status.file != file:
        raise ConfigError(status.problem)
    if file is None:
        raise _not_fetchable(data_set, folder)
    path = folder / name / file.name
    if status is not None:
        print_text(console, f"replacing {path}: it is damaged")
    _download(file, path, console)
    print(f"{name} downloaded and checksum verified: {path}")


def _download(file: DataFile, path: Path, console: Console) -> None:
    """Download a file; show the progress on a terminal."""
    from rich.filesize import decimal
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from fedsim.data.download import download

    size = decimal(file.size)
    print_text(console, f"downloading {file.url} ({size})")
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=console.quiet or not console.is_terminal,
    ) as bars:
        task = bars.add_task(file.name, total=file.size)
        download(file, path, lambda arrived: bars.advance(task, arrived))


def _not_fetchable(data_set: DataSet, folder: Path) -> MissingDataError:
    home = folder / data_set.name
    wanted = " or ".join(
        f"{home / file.name} ({file.contents}; {file.size:,} bytes, SHA-256 {file.sha256})"
        for file in data_set.files
    )
    return MissingDataError(
        f"{data_set.name} cannot be downloaded: fedsim reads a file derived from the original, "
        f"{data_set.origin}. Get this exact file from someone who has it and save it as {wanted}; "
        "or set --data DIR or the variable FEDSIM_DATA to the folder that contains "
        f"{data_set.name}/"
    )


def _inspect(files: Sequence[DataFile], home: Path) -> list[FileStatus]:
    from fedsim.data.datasets import inspect

    return [inspect(home / file.name, file) for file in files]


def _first_there(statuses: Sequence[FileStatus]) -> FileStatus | None:
    """Return the file that a scenario would read, even if damaged; None if there is none."""
    return next((status for status in statuses if status.state != "absent"), None)


def _record(data_set: DataSet, folder: Path) -> dict[str, Any]:
    """Return a set's catalogue entry and the state of its files."""
    home = folder / data_set.name
    files, extras = _inspect(data_set.files, home), _inspect(data_set.extras, home)
    there = _first_there(files)
    return {
        "name": data_set.name,
        "summary": data_set.summary,
        "licence": data_set.licence,
        "origin": data_set.origin,
        "state": "absent" if there is None else there.state,
        "path": None if there is None else str(there.path),
        "size": (files[0] if there is None else there).file.size,
        "files": [_file_record(status, "file") for status in files]
        + [_file_record(status, "extra") for status in extras],
    }


def _file_record(status: FileStatus, role: str) -> dict[str, Any]:
    return {
        **asdict(status.file),
        "role": role,
        "path": str(status.path),
        "state": status.state,
        "problem": status.problem,
    }


def _table(folder: Path, sets: Sequence[dict[str, Any]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.filesize import decimal
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"data sets in {escape(str(folder))}", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("set", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    for one in sets:
        state = f"[{_COLOURS[one['state']]}]{one['state']}[/], {decimal(one['size'])}"
        lines = [one["summary"], f"licence: {one['licence']}", f"origin: {one['origin']}"]
        lines += [_file_line(file) for file in one["files"]]
        table.add_row(f"[bold]{one['name']}[/]\n{state}", escape("\n".join(lines)))
        table.add_section()
    return table


def _file_line(file: dict[str, Any]) -> str:
    from rich.filesize import decimal

    notes = [decimal(file["size"]), file["state"]]
    notes += ["can be downloaded"] if file["url"] else []
    return f"{file['role']}: {file['name']} ({', '.join(notes)})"
