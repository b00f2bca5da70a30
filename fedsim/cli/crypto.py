"""``fedsim crypto``: what encryption costs, and what colluding parties learn."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsim.cli.consoles import make_console, print_json
from fedsim.cli.options import JsonOption, QuietOption
from fedsim.errors import require

if TYPE_CHECKING:  # these take long to import, and --help needs none of them
    from rich.table import Table

    from fedsim.crypto.collusion import Withheld
    from fedsim.crypto.measuring import Costs

crypto_app = typer.Typer(help="Encryption: what it costs, and what colluding parties learn.")

_MEMBERS, _SUPPORTS = (10, 30, 100), (8, 32, 64)

_REFERENCE = {
    (10, 8): (1.5, 0.2, 0.8, 0.03),
    (10, 32): (1.4, 0.2, 0.6, 0.05),
    (10, 64): (1.2, 0.3, 0.8, 0.10),
    (30, 8): (1.1, 0.7, 0.5, 0.04),
    (30, 32): (1.1, 0.7, 0.6, 0.08),
    (30, 64): (1.2, 0.9, 0.7, 0.17),
    (100, 8): (1.0, 3.1, 0.5, 0.06),
    (100, 32): (1.1, 3.1, 0.6, 0.16),
    (100, 64): (1.1, 3.8, 0.7, 0.6),
}
"""Reference measurements, of a prototype of the same scheme on another machine (AMD EPYC, AVX-512).

CPU milliseconds by (members, support): encrypt, aggregate, share, decrypt; the middle, where a
range was measured.
"""

_WITHHELD = (
    (2, 8, 1.0, 1),
    (10, 32, 1.0, 1),
    (30, 32, 1e3, 1),
    (30, 64, 1.0, 1),
    (100, 32, 1.0, 1),
    (30, 32, 1.0, 3),
    (30, 32, 1.0, 0),
)


@crypto_app.command("bench")
def bench_command(
    context: typer.Context,
    members: Annotated[
        int | None, typer.Option(help="Number of clients M; 10, 30 and 100 if left out.")
    ] = None,
    support: Annotated[
        int | None, typer.Option(help="Size of the support set; 8, 32 and 64 if left out.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="Whole rounds to measure, key set-up included.")] = 3,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure time and bytes of encrypted sums, beside TenSEAL and reference measurements."""
    from fedsim.cli.tables import print_table
    from fedsim.crypto.measuring import ckks_costs, numbers_of, threshold_costs

    require(members is None or 3 <= members <= 1024, "--members", "3 to 1024", members)
    require(support is None or 1 <= support <= 126, "--support", "1 to 126", support)
    require(rounds >= 1, "--rounds", "at least 1", rounds)
    sizes = [
        (m, s)
        for m in (_MEMBERS if members is None else (members,))
        for s in (_SUPPORTS if support is None else (support,))
    ]
    console = make_console(stderr=True, quiet=context.obj.quiet)
    operations, whole = [], []
    with console.status("measuring") as status:
        for m, s in sizes:
            status.update(f"measuring {m} clients, |S| = {s}")
            operations.append((threshold_costs(m, s), ckks_costs(m, s)))
        m, s = sizes[len(sizes) // 2]
        for encryption in ("threshold", "ckks", "plain"):
            status.update(f"measuring {rounds} rounds, {encryption}")
            whole.append(_whole(encryption, m, s, numbers_of(s), rounds))
    if as_json:
        print_json(
            {
                "operations": [
                    {"threshold": asdict(own), "ckks": asdict(other), "reference": _known(own)}
                    for own, other in operations
                ],
                "rounds": whole,
            }
        )
        return
    console = make_console()
    print_table(console, _operations_table(operations))
    print_table(console, _rounds_table(whole))


def _whole(encryption: Any, members: int, support: int, numbers: int, rounds: int) -> Any:
    from fedsim.crypto.measuring import Rounds

    start = time.process_time()
    federation = Rounds(encryption, members, numbers)
    for t in range(rounds):
        federation.run(t)
    return {
        "encryption": encryption,
        "members": members,
        "support": support,
        "rounds": rounds,
        "cpu_seconds": time.process_time() - start,
        "bytes_to_clients": federation.bytes_sent["to clients"],
        "bytes_to_server": federation.bytes_sent["to the server"],
    }


def _known(costs: Costs) -> dict[str, float] | None:
    """Return the reference measurements at this size, if there are any."""
    found = _REFERENCE.get((costs.members, costs.support))
    names = ("encrypt", "aggregate", "share", "decrypt")
    return None if found is None else dict(zip(names, found, strict=True))


def _operations_table(operations: list[tuple[Costs, Costs]]) -> Table:
    from rich import box
    from rich.table import Table

    names = ("key", "encrypt", "aggregate", "share", "decrypt")
    title = "CPU milliseconds and bytes of one sum"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("M", justify="right")
    table.add_column("|S|", justify="right")
    table.add_column("scheme")
    for name in ("key", "encrypt", "add M", "share", "decrypt", "upload", "share B"):
        table.add_column(name, justify="right")
    for own, other in operations:
        known, size = _known(own), (str(own.members), str(own.support))
        times = [f"{getattr(own, name):.2f}" for name in names]
        table.add_row(
            *size, "threshold", *times, f"{own.ciphertext_bytes:,}", f"{own.share_bytes:,}"
        )
        times = [f"{getattr(other, name):.2f}" if name != "share" else "-" for name in names]
        table.add_row("", "", "TenSEAL", *times, f"{other.ciphertext_bytes:,}", "-")
        if known is not None:
            times = [f"{known[name]:.2f}" if name in known else "-" for name in names]
            table.add_row("", "", "reference", *times)
    return table


def _rounds_table(whole: list[Any]) -> Table:
    from rich.table import Table

    first = whole[0]
    size = f"{first['members']} clients, |S| = {first['support']}, {first['rounds']} rounds"
    table = Table(title=f"Whole rounds with key set-up, wire, digests and checks: {size}")
    table.add_column("encryption")
    for name in ("CPU seconds", "bytes to the server", "bytes to clients"):
        table.add_column(name, justify="right")
    for row in whole:
        table.add_row(
            row["encryption"],
            f"{row['cpu_seconds']:.3f}",
            f"{row['bytes_to_server']:,}",
            f"{row['bytes_to_clients']:,}",
        )
    return table


@crypto_app.command("collusion")
def collusion_command(
    context: typer.Context,
    members: Annotated[int | None, typer.Option(help="Clients M; a table if left out.")] = None,
    support: Annotated[int, typer.Option(help="Size of the support set.")] = 32,
    scale: Annotated[float, typer.Option(help="Standard deviation of the numbers.")] = 1.0,
    withheld: Annotated[int, typer.Option(help="Shares that are withheld.")] = 1,
    trials: Annotated[int, typer.Option(help="Trials, each with new keys.")] = 5,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Withhold decryption shares, and show that the others' decrypt to noise."""
    from fedsim.cli.tables import print_table
    from fedsim.crypto.collusion import withhold_shares
    from fedsim.crypto.measuring import numbers_of

    require(1 <= support <= 126, "--support", "1 to 126", support)
    settings = _WITHHELD if members is None else ((members, support, scale, withheld),)
    console = make_console(stderr=True, quiet=context.obj.quiet)
    found = []
    with console.status("trying") as status:
        for m, s, size, missing in settings:
            status.update(f"trying {m} clients, |S| = {s}, {missing} withheld")
            found.append(withhold_shares(m, numbers_of(s), size, missing, trials))
    if as_json:
        print_json({"trials": [asdict(one) for one in found]})
        return
    print_table(make_console(), _collusion_table(found))
    make_console().print(
        "With a share withheld, what decrypts is uniform modulo 2^72 and does not correlate with "
        "the sum; its size only mirrors the modulus. In a run, the check makes each such trial an "
        "error. All but one client together learn the last one's vector from any exact sum."
    )


def _collusion_table(found: list[Withheld]) -> Table:
    from rich import box
    from rich.table import Table

    title = "Shares withheld, new keys in each trial, the check off"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in (
        "M",
        "n",
        "scale",
        "missing",
        "median",
        "true",
        "right",
        "least KS p",
        "most corr.",
    ):
        table.add_column(name, justify="right")
    table.add_column("found", justify="right")
    for one in found:
        table.add_row(
            str(one.members),
            str(one.numbers),
            f"{one.scale:g}",
            str(one.withheld),
            f"{one.median:.1e}",
            f"{one.true_median:.1e}",
            f"{one.right / (one.trials * one.numbers):.0%}",
            f"{min(one.uniformity):.2f}",
            f"{max(one.correlation, key=abs):.2f}",
            f"{one.found}/{one.trials}",
        )
    return table
