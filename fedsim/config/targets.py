"""Privacy targets: the noise that ``method.dp.epsilon`` asks for.

``method.dp`` has either a ``noise_multiplier``, or an ``epsilon`` (and perhaps its ``delta``) that
the noise is calibrated for, when the configuration is read. The resolved configuration has both, so
that a resumed run, or one of the resolved configuration, takes the noise as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fedsim.config.construct import build_method, build_scenario, planned_costs
from fedsim.config.model import Config, named, private_delta_of
from fedsim.config.reading import NOISE, TARGET
from fedsim.errors import ConfigError

if TYPE_CHECKING:  # imports this module
    from fedsim.config.experiment import Experiment

_DIGITS = 6  # of a calibrated noise multiplier, rounded up
_TOLERANCE = 1e-6  # relative: another version's accountant may round otherwise


def calibrated(experiment: Experiment) -> Experiment:
    """Return an experiment with a noise multiplier wherever it has a target.

    Where a configuration has both, the multiplier is kept, and must meet the target.

    Raises:
        ConfigError: if a target cannot be met, or is not met by the multiplier beside it.
        UserCodeError: if a user's code raises.
    """
    if not any(map(_target, experiment.variants.values())):
        return experiment
    variants: dict[str, Config] = {}
    for label, variant in experiment.variants.items():
        try:
            variants[label] = _met(experiment, variant) if _target(variant) else variant
        except ConfigError as error:
            where = f"variants.{label}: " if experiment.config.variants else ""
            raise ConfigError(f"{where}{error}") from None
    return replace(experiment, variants=variants, config=_recorded(experiment.config, variants))


def overspent(variants: Mapping[str, Config]) -> str:
    """Return a warning of budgets that are below their variant's target; empty if there are none.

    Such a budget refuses the last releases, for which the noise was calibrated.
    """
    below = list[str]()
    for variant in variants.values():
        dp, budget = _target(variant), variant.privacy.budget
        if dp is not None and budget is not None and dp["epsilon"] > budget:
            below.append(f"{budget:g} is below method.dp.epsilon {dp['epsilon']:g}")
    if not below:
        return ""
    told = ", and ".join(dict.fromkeys(below))
    return f"warning: privacy.budget {told}, so it will refuse releases"


def _target(variant: Config) -> Mapping[str, Any] | None:
    """Return the settings of a mechanism that has a target."""
    dp = variant.method.get("dp")
    if not isinstance(dp, Mapping) or not {*NOISE, *TARGET} <= {*dp}:  # another method's own dp
        return None
    return None if dp["epsilon"] is None else dp


def _met(experiment: Experiment, variant: Config) -> Config:
    """Return a variant whose noise meets its target."""
    from fedsim.privacy.accountants import make_accountant, privacy_loss
    from fedsim.privacy.calibration import noise_for, scaled

    dp = _target(variant)
    assert dp is not None
    found, privacy = variant.model_copy(deep=True), variant.privacy
    if dp["delta"] is not None and dp["delta"] != (privacy.delta or dp["delta"]):
        raise ConfigError(
            f"method.dp.delta: {dp['delta']} is not privacy.delta {privacy.delta}: give one of them"
        )
    found.privacy.delta = privacy.delta or dp["delta"]
    # Noise is proportional to its multiplier, and so is that of every planned release.
    found.method["dp"] = {**dp, "epsilon": None, "delta": None, "noise_multiplier": 1.0}
    spec = experiment.spec(found, variant.seeds[0])
    scenario = build_scenario(spec)
    costs = planned_costs(build_method(spec, scenario))
    if not costs:
        raise ConfigError(
            "method.dp.epsilon: this configuration makes no releases, so there is nothing to "
            "calibrate; set method.dp.noise_multiplier"
        )
    delta = private_delta_of(found, scenario.agents)
    accountant, epsilon = make_accountant(privacy.accountant), float(dp["epsilon"])
    noise = dp["noise_multiplier"]

    def spent(noise: float) -> float:
        return privacy_loss(scaled(costs, noise), delta, accountant, privacy.accounting).epsilon

    try:
        if noise is None:
            smallest = noise_for(costs, epsilon, delta, accountant, privacy.accounting)
            noise = _rounded_up(smallest)
            while spent(noise) > epsilon:  # where a grid gets coarser, epsilon rises a little
                noise = _rounded_up(noise * (1 + 10.0**-_DIGITS))
        loss = spent(noise)
    except ConfigError as error:
        raise ConfigError(f"method.dp.{error}") from None
    if loss > epsilon * (1 + _TOLERANCE):
        raise ConfigError(
            f"method.dp.noise_multiplier: {noise} costs an epsilon of {loss:.6g} at delta "
            f"{delta:.3g}, more than method.dp.epsilon {epsilon:g}; leave it out (or null): then "
            "it is calibrated"
        )
    found.method["dp"] = {**dp, "delta": delta, "noise_multiplier": noise}
    return found


def _rounded_up(value: float) -> float:
    step = 10.0 ** (math.floor(math.log10(value)) + 1 - _DIGITS)
    return float(f"{math.ceil(value / step) * step:.{_DIGITS}g}")


def _recorded(config: Config, variants: Mapping[str, Config]) -> Config:
    """Return the whole configuration with the noise of all variants that have a target."""
    whole = config.model_copy(deep=True)
    for label, variant in variants.items():
        dp = _target(variant)
        if dp is None:
            continue
        if not config.variants:
            whole.method["dp"] = dict(variant.method["dp"])
            whole.privacy.delta = variant.privacy.delta
        elif label in whole.variants:  # a control is a copy of its variant
            changes = whole.variants[label]
            method = {**named(changes.get("method") or {})}
            found = {name: dp[name] for name in (*TARGET, *NOISE)}
            changes["method"] = {**method, "dp": {**(method.get("dp") or {}), **found}}
            if variant.privacy.delta != config.privacy.delta:
                given = changes.get("privacy") or {}
                changes["privacy"] = {**given, "delta": variant.privacy.delta}
    return whole
