"""Sums of summaries, in the clear."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsim.surrogates.dpitc import Summary


def total(summaries: Sequence[Summary]) -> Summary:
    """Return the sum of at least one summary; Eq. (8) of FBO-FedGP without Sigma_SS."""
    return Summary(
        np.sum([one.covariance for one in summaries], axis=0),
        np.sum([one.means for one in summaries], axis=0),
        np.sum([one.misfits for one in summaries], axis=0),
    )
