"""``fedsim privacy plan``: ways of sharing that meet a privacy target, by their expected signal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsim.cli.consoles import make_console, print_json
from fedsim.cli.options import JsonOption
from fedsim.cli.privacy import WORDS, Agents, Delta, accountant_name, delta_of, meaning
from fedsim.errors import ConfigError, require
from fedsim.results.digits import significant

if TYPE_CHECKING:  # these take long to import, and --help needs none of them
    from rich.table import Table

    from fedsim.privacy.planning import Plan, Vectors


def plan_command(
    agents: Agents,
    rounds: Annotated[int, typer.Option(help="Number of queries T.")],
    epsilon: Annotated[float, typer.Option(help="The largest privacy loss of a whole run.")],
    delta: Delta = None,
    features: Annotated[int, typer.Option(help="Length M of an agent's vector.")] = 100,
    norm: Annotated[float, typer.Option(help="Assumed norm of agents' posterior means.")] = 2.0,
    agreement: Annotated[
        float, typer.Option(help="Assumed mean cosine between two agents' means, 0 to 1.")
    ] = 0.5,
    accountant: Annotated[str, typer.Option(help="moments, rdp or pld.")] = "pld",
    as_json: JsonOption = False,
) -> None:
    """Propose releases, q, z, S and P for a privacy target, by their expected signal to noise.

    The methods are dp-fts-de, with a release in every round, and dp-prior, with a few.
    """
    from fedsim.cli.tables import print_table
    from fedsim.privacy.accountants import make_accountant
    from fedsim.privacy.planning import Vectors, plans

    delta = delta_of(agents, delta)
    require(rounds >= 1, "--rounds", "at least 1", rounds)
    require(0 < epsilon < math.inf, "--epsilon", "a finite number above 0", epsilon)
    try:
        vectors = Vectors(features, norm, agreement)
    except ConfigError as error:
        raise ConfigError(f"--{error}") from None
    made = make_accountant(accountant_name(accountant))
    found = plans(agents, rounds, epsilon, delta, made, vectors)
    if as_json:
        print_json(_record(found, vectors))
        return
    console = make_console()
    console.print("Expected signal to noise of a release (above 1: more signal than noise)")
    print_table(console, _table(found))
    for place, plan in enumerate(found, 1):
        console.print(f"{place}  {_line({'method': plan.setting()})}", soft_wrap=True)
    console.print(f"beside it: {_line({'privacy': {'delta': delta}})}", soft_wrap=True)
    console.print(_assumed(found, vectors))
    console.print(meaning("poisson"))


def _table(found: list[Plan]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in ("method", "messages"):
        table.add_column(name)
    for name in ("shared", "whole", "releases", "q", "z", "S", "P", "ε"):
        table.add_column(name, justify="right")
    for place, plan in enumerate(found, 1):
        ratios = (significant(x, 3) for x in (plan.shared_to_noise, plan.signal_to_noise))
        numbers = (plan.sampling_rate, plan.noise_multiplier, plan.clipping_norm)
        table.add_row(
            str(place),
            plan.method,
            f"{plan.kind}s",
            *ratios,
            str(plan.releases),
            *(significant(x, 5) for x in numbers),
            str(plan.regions),
            significant(plan.loss.epsilon, 4),
        )
    return table


def _record(found: list[Plan], vectors: Vectors) -> dict[str, Any]:
    loss = found[0].loss
    return {
        "delta": loss.delta,
        "accountant": loss.accountant,
        "neighbouring_relation": loss.neighbouring_relation,
        "sampling": loss.sampling,
        "assumed": {
            "features": vectors.features,
            "norm": vectors.norm,
            "agreement": vectors.agreement,
        },
        "plans": [
            {
                "method": plan.method,
                "message": plan.kind,
                "shared_to_noise": plan.shared_to_noise,
                "signal_to_noise": plan.signal_to_noise,
                "releases": plan.releases,
                "sampling_rate": plan.sampling_rate,
                "noise_multiplier": plan.noise_multiplier,
                "clipping_norm": plan.clipping_norm,
                "subregions": plan.regions,
                "epsilon": plan.loss.epsilon,
                "source": plan.loss.source,
                "config": {"method": plan.setting()},
            }
            for plan in found
        ],
    }


def _assumed(found: list[Plan], vectors: Vectors) -> str:
    loss = found[0].loss
    return (
        f"Assumed, not known: agents' posterior means have {vectors.features} numbers, the norm "
        f"{significant(vectors.norm)}, and a mean cosine of {significant(vectors.agreement)} "
        "between two agents; nothing is clipped, and regions weigh all agents alike. `shared` "
        "counts what agents have in common, `whole` the whole sum, as runs record it. With other "
        "agents both change, S too; never look at the agents' data to choose them. dp-prior "
        "averages its releases: k of equal vectors have up to sqrt(k) times the ratio of one. "
        f"Accountant: {WORDS[loss.accountant]}, at delta {loss.delta:.3g}."
    )


def _line(section: dict[str, object]) -> str:
    """Return a section as one line of YAML."""
    import yaml

    ((name, content),) = section.items()
    text = yaml.safe_dump(content, default_flow_style=True, sort_keys=False, width=10_000)
    return f"{name}: {text.strip()}"
