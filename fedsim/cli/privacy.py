"""``fedsim privacy``: the privacy loss of a run, before anything is run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsim.cli.consoles import make_console, print_json
from fedsim.cli.options import JsonOption, QuietOption
from fedsim.errors import ConfigError, nearest, require
from fedsim.results.digits import significant

if TYPE_CHECKING:  # these take long to import, and --help needs none of them
    from rich.table import Table

    from fedsim.privacy.accountants import AccountantName, PrivacyLoss
    from fedsim.privacy.calibration import Calibration, Trial, Unknown
    from fedsim.privacy.events import Sampling

_NAMES: dict[str, AccountantName] = {"moments": "moments", "rdp": "rdp", "pld": "pld"}
WORDS: dict[AccountantName, str] = {
    "moments": "moments accountant, as papers report it",
    "rdp": "Renyi (rdp), tighter",
    "pld": "loss distributions (pld), tightest",
}

_SAMPLINGS: dict[str, Sampling] = {"poisson": "poisson", "fixed": "fixed"}
_SAMPLED: dict[Sampling, str] = {
    "poisson": "every agent independently in every round",
    "fixed": "int(N q) agents in every round, without replacement",
}
_REPLACED: dict[Sampling, str] = {
    "poisson": "as with zeros in their place",
    "fixed": "as with any others in their place",
}

_SECONDS_BETWEEN_LINES = 2.0
_INFINITE = (
    "epsilon is infinite: the noise multiplier is so small (below 1e-6) that nothing is private"
)

privacy_app = typer.Typer(help="Privacy losses, computed before anything is run.")

Agents = Annotated[int, typer.Option(help="Number of agents N; delta is N^-1.1 by default.")]
SamplingOption = Annotated[
    str, typer.Option("--sampling", help="poisson, or fixed: int(N q) agents in every round.")
]
Delta = Annotated[float | None, typer.Option(help="Failure probability, between 0 and 1.")]


@privacy_app.command("subsampled")
def subsampled_command(
    agents: Agents,
    sampling_rate: Annotated[float, typer.Option(help="Probability q that an agent is used.")],
    noise_multiplier: Annotated[float, typer.Option(help="Noise over clipping bound, z.")],
    rounds: Annotated[int, typer.Option(help="Number of queries T; each costs one release.")],
    delta: Delta = None,
    sampling: SamplingOption = "poisson",
    as_json: JsonOption = False,
) -> None:
    """Show the privacy loss of T rounds of the subsampled Gaussian mechanism (DP-FTS-DE)."""
    from fedsim.cli.tables import print_table
    from fedsim.privacy.accountants import STRICT_DELTA, make_accountant
    from fedsim.privacy.calibration import constant_loss

    delta, how = delta_of(agents, delta), _sampling(sampling)
    _check_setting(sampling_rate, noise_multiplier, rounds)

    def loss(name: AccountantName, delta: float) -> PrivacyLoss:
        z, accountant = noise_multiplier, accountants[name]
        return constant_loss(sampling_rate, z, rounds, delta, accountant, how, agents)

    accountants = {
        name: make_accountant(name) for name in WORDS if how == "poisson" or name != "moments"
    }
    losses = {name: loss(name, delta) for name in accountants}
    small: dict[AccountantName, PrivacyLoss] = {
        "rdp": loss("rdp", STRICT_DELTA),
        "pld": loss("pld", STRICT_DELTA),
    }
    if as_json:
        print_json(_losses_record(delta, losses, small))
    else:
        print_table(make_console(), _losses_table(delta, losses, small))
        make_console().print(meaning(how))
        if math.isinf(losses["pld"].epsilon):
            make_console().print(_INFINITE)


@privacy_app.command("calibrate")
def calibrate_command(
    context: typer.Context,
    agents: Agents,
    epsilon: Annotated[float, typer.Option(help="The largest privacy loss allowed.")],
    sampling_rate: Annotated[float | None, typer.Option(help="q; found if left out.")] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="z; found if left out.")] = None,
    rounds: Annotated[int | None, typer.Option(help="T; found if left out.")] = None,
    delta: Delta = None,
    accountant: Annotated[str, typer.Option(help="moments, rdp or pld.")] = "pld",
    sampling: SamplingOption = "poisson",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find the sampling rate, the noise multiplier or the rounds for a privacy target.

    Leave out exactly one of the three.
    """
    from fedsim.privacy.accountants import make_accountant
    from fedsim.privacy.calibration import calibrate

    delta, how = delta_of(agents, delta), _sampling(sampling)
    _check_setting(sampling_rate, noise_multiplier, rounds)
    require(0 < epsilon < math.inf, "--epsilon", "a finite number above 0", epsilon)
    if [sampling_rate, noise_multiplier, rounds].count(None) != 1:
        raise ConfigError(
            "--sampling-rate, --noise-multiplier, --rounds: expected exactly one of them to be "
            "left out; give the other two"
        )
    name = accountant_name(accountant)
    console = make_console(stderr=True, quiet=context.obj.quiet)
    with console.status("calibrating") as status:
        result = calibrate(
            epsilon,
            delta,
            make_accountant(name),
            sampling_rate=sampling_rate,
            noise_multiplier=noise_multiplier,
            rounds=rounds,
            sampling=how,
            agents=agents,
            on_trial=_told(status.update if console.is_terminal else console.print),
        )
    if as_json:
        print_json(_calibration_record(result))
    else:
        make_console().print(
            f"{_option(result.found)} {getattr(result, result.found)} costs epsilon "
            f"{significant(result.loss.epsilon, 5)} at delta {result.loss.delta:.3g}; accountant: "
            f"{WORDS[result.loss.accountant]}."
        )
        make_console().print(meaning(how))


def _told(tell: Callable[[str], None]) -> Trial:
    """Return what tells about trials, at most one every two seconds: most are much quicker."""
    count, told = 0, time.monotonic()

    def trial(found: Unknown, value: float, epsilon: float) -> None:
        nonlocal count, told
        count += 1
        if time.monotonic() - told >= _SECONDS_BETWEEN_LINES:
            told = time.monotonic()
            cost = significant(epsilon, 5)
            tell(f"trial {count}: {_option(found)} {value:.7g} costs epsilon {cost}")

    return trial


def _option(found: Unknown) -> str:
    return "--" + found.replace("_", "-")


def _losses_record(
    delta: float,
    losses: dict[AccountantName, PrivacyLoss],
    small: dict[AccountantName, PrivacyLoss],
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "delta": delta,
        **{name: loss.epsilon for name, loss in losses.items()},
        "delta_1e-5": {name: loss.epsilon for name, loss in small.items()},
        "pld_source": losses["pld"].source,
        "neighbouring_relation": losses["pld"].neighbouring_relation,
        "sampling": losses["pld"].sampling,
    }
    if math.isinf(losses["pld"].epsilon):  # JSON has no infinity: the losses are null
        record["infinite"] = _INFINITE
    return record


def _losses_table(
    delta: float,
    losses: dict[AccountantName, PrivacyLoss],
    small: dict[AccountantName, PrivacyLoss],
) -> Table:
    from rich.table import Table

    from fedsim.privacy.accountants import STRICT_DELTA

    table = Table(title="Privacy loss epsilon (smaller is more private)")
    table.add_column("accountant")
    table.add_column(f"delta {delta:.4g}", justify="right")
    table.add_column(f"delta {STRICT_DELTA:.0e}", justify="right")
    for name, loss in losses.items():
        beside = significant(small[name].epsilon, 5) if name in small else ""
        table.add_row(WORDS[name], significant(loss.epsilon, 5), beside)
    return table


def _calibration_record(result: Calibration) -> dict[str, Any]:
    return {
        "found": result.found,
        "sampling_rate": result.sampling_rate,
        "noise_multiplier": result.noise_multiplier,
        "rounds": result.rounds,
        "epsilon": result.loss.epsilon,
        "delta": result.loss.delta,
        "accountant": result.loss.accountant,
        "source": result.loss.source,
        "neighbouring_relation": result.loss.neighbouring_relation,
        "sampling": result.loss.sampling,
    }


def meaning(how: Sampling) -> str:
    """Return what an epsilon promises, in words."""
    from fedsim.privacy.accountants import NEIGHBOURING_RELATIONS, SAMPLINGS

    return (
        f"Neighbouring relation: {NEIGHBOURING_RELATIONS[how]}. Any broadcast is at most e^epsilon "
        f"times as likely, up to probability delta, with one agent's messages {_REPLACED[how]}. "
        f"Sampling: {SAMPLINGS[how]}, {_SAMPLED[how]}; it counts only if nobody learns who was "
        "sampled."
    )


def accountant_name(given: str) -> AccountantName:
    """Return the name of an accountant that was given."""
    if given not in _NAMES:
        raise ConfigError(f"--accountant: unknown name {given!r}{nearest(given, _NAMES)}")
    return _NAMES[given]


def _sampling(given: str) -> Sampling:
    if given not in _SAMPLINGS:
        raise ConfigError(f"--sampling: unknown name {given!r}{nearest(given, _SAMPLINGS)}")
    return _SAMPLINGS[given]


def delta_of(agents: int, delta: float | None) -> float:
    """Return the delta that was given, or the papers'."""
    require(agents >= 2, "--agents", "at least 2", agents)
    if delta is None:
        from fedsim.privacy.accountants import default_delta

        return default_delta(agents)
    require(0 < delta < 1, "--delta", "a number above 0 and below 1", delta)
    return delta


def _check_setting(
    sampling_rate: float | None, noise_multiplier: float | None, rounds: int | None
) -> None:
    if sampling_rate is not None:
        valid = 0 < sampling_rate <= 1
        require(valid, "--sampling-rate", "a probability above 0, at most 1", sampling_rate)
    if noise_multiplier is not None:
        valid = 0 < noise_multiplier < math.inf
        require(valid, "--noise-multiplier", "a finite number above 0", noise_multiplier)
    if rounds is not None:
        require(rounds >= 1, "--rounds", "at least 1", rounds)
