"""The names that a configuration may use for scenarios and methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedsim.usercode.given import Given
from fedsim.usercode.importing import activate
from fedsim.usercode.loading import load_class
from fedsim.usercode.sources import UserCode


@dataclass(frozen=True)
class Entry:
    """A registered class.

    Attributes:
        target: ``package.module:Class``.
        summary: one line for ``fedsim list``.
        fixed: settings that the name implies; a configuration cannot change them.
        required: settings that may not be null under this name.
        code: the user's modules, if it is a user's class, which may be one of them.
    """

    target: str
    summary: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    code: UserCode | None = None

    @property
    def given(self) -> Given | None:
        """The class or the object that the run was given in Python under this name, if any."""
        return None if self.code is None else self.code.objects.get(self.target)

    @property
    def is_object(self) -> bool:
        """Whether it is an object, which has its settings, and not a class."""
        return self.given is not None and not self.given.is_class

    def load(self) -> Any:
        """Return the class, or a copy of the object.

        Raises:
            ConfigError: if the class cannot be found.
            UserCodeError: if importing its module raises.
        """
        given = self.given
        if given is None or self.code is None:
            return load_class(self.target, self.code)
        activate(self.code)
        return given.load()


_FTS = "fedsim.methods.dp_fts_de:DPFTSDE"
_PRIOR = "fedsim.methods.dp_prior:DPPrior"

METHODS: Mapping[str, Entry] = {
    "random-search": Entry(
        "fedsim.methods.random_search:RandomSearch", "uniform points, no model, no messages"
    ),
    "ts": Entry("fedsim.methods.thompson:ThompsonSampling", "each agent alone, Thompson sampling"),
    "fts": Entry(_FTS, "federated Thompson sampling with a server", {"subregions": 1, "dp": None}),
    "fts-de": Entry(_FTS, "FTS with distributed exploration", {"dp": None}),
    "dp-fts": Entry(
        _FTS, "FTS with user-level differential privacy", {"subregions": 1}, required=("dp",)
    ),
    "dp-fts-de": Entry(
        _FTS, "FTS with differential privacy and distributed exploration", required=("dp",)
    ),
    "prior-mean": Entry(
        _PRIOR, "Thompson sampling around an average of all agents' functions", {"dp": None}
    ),
    "dp-prior": Entry(
        _PRIOR, "the same with user-level differential privacy, few releases", required=("dp",)
    ),
    "fed-warp": Entry(
        "fedsim.methods.fed_warp:FederatedWarp",
        "one private release of the inputs' scales, then each agent alone",
    ),
    "fts-target": Entry(
        "fedsim.methods.fts_target:FTSTarget", "FTS of target agents with helpers (its own paper)"
    ),
    "rgpe": Entry(
        "fedsim.methods.rgpe:RGPE", "FTS's rival: helpers' posteriors, weighed by ranking losses"
    ),
    "taf": Entry(
        "fedsim.methods.taf:TAF", "FTS's rival: improvements that helpers' posteriors predict"
    ),
    "fbo-fedgp": Entry(
        "fedsim.methods.fbo_fedgp:FBOFedGP", "encrypted sums of sparse Gaussian processes"
    ),
    "fbo-fedgp-tr": Entry(
        "fedsim.methods.fedgp_tr:FBOFedGPTrustRegions",
        "FBO-FedGP in regions that shrink around what looks best",
    ),
}

SCENARIOS: Mapping[str, Entry] = {
    "synthetic": Entry(
        "fedsim.scenarios.synthetic:Synthetic", "perturbed draws of one Gaussian process"
    ),
    "digits-svm": Entry(
        "fedsim.scenarios.digits_svm:DigitsSVM", "SVMs on unequal shares of handwritten digits"
    ),
    "landmine": Entry(
        "fedsim.scenarios.landmine:Landmine", "SVMs on 29 landmine fields (needs the data set)"
    ),
    "functions": Entry(
        "fedsim.scenarios.functions:Functions", "shifted and rotated test functions, any dimension"
    ),
    "cec2005": Entry(
        "fedsim.scenarios.cec2005:CEC2005", "the CEC 2005 functions F1 to F20 (needs the data set)"
    ),
    "tabular": Entry(
        "fedsim.scenarios.tabular:Tabular",
        "gradient boosting on credit, diabetes or hospital data (needs the data sets)",
    ),
}
