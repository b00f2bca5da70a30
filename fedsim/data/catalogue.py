"""The catalogue of data sets: contents, licence, origin and checksums of each.

None of them ships with fedsim; :mod:`fedsim.data.datasets` finds and checks the user's files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Attributes:
        name: its name inside the set's folder.
        size: in bytes.
        sha256: its checksum.
        contents: its arrays or columns, for people.
        url: where exactly this file can be downloaded, or None.
    """

    name: str
    size: int
    sha256: str
    contents: str
    url: str | None = None


@dataclass(frozen=True)
class DataSet:
    """A data set.

    Attributes:
        name: also its folder's name.
        summary: one line.
        licence: the terms, as its owners state them.
        origin: where it comes from, for people.
        files: alternatives, each holding the whole set; the preferred one first.
        extras: optional files that fedsim does not need.
    """

    name: str
    summary: str
    licence: str
    origin: str
    files: tuple[DataFile, ...]
    extras: tuple[DataFile, ...] = ()


_SETS = (
    DataSet(
        "landmine",
        "radar features of 29 landmine fields, for classification",
        "none stated (publicly available)",
        "https://github.com/daizhongxiang/Federated_Bayesian_Optimization; before that "
        "http://www.ee.duke.edu/~lcarin/LandmineData.zip",
        (
            DataFile(
                "landmine.npz",
                1_024_254,
                "7d884d067b7e19a295acf70fb4da145aedb0ffc3658e9b233cc71990ea5196d4",
                "X (14820, 9), y (14820,), field (14820,)",
            ),
            DataFile(
                "LandmineData.mat",
                1_085_456,
                "2163ab20a80e33a8b65593c48cf283c540599dcb291105e63fa4af2ce24c2bea",
                "cells feature (1, 29) of (n, 9) and label (1, 29) of (n, 1)",
                "https://raw.githubusercontent.com/daizhongxiang/Federated_Bayesian_Optimization/"
                "9f46a1dfbbcfd5823e026ad9418a4cb881676ae9/LandmineData.mat",
            ),
        ),
    ),
    DataSet(
        "har561",
        "phone sensor features of 30 people in 6 activities, recomputed from the raw recordings",
        "CC BY 4.0 by UCI's page; the archive: cite Anguita et al. 2013, no commercial use",
        "https://archive.ics.uci.edu/dataset/341 (HAPT); ids: https://archive.ics.uci.edu/dataset/240",
        (
            DataFile(
                "har561.npz",
                8_040_718,
                "dc822a22542a6791b5f8f465afd5447f47418efaf43b96c1d3db21ee82730ee9",
                "X (10411, 561), y, subject, experiment (10411,), feature, raw_min, raw_max (561,)",
            ),
        ),
        (
            DataFile(
                "uci_har_ids.npz",
                1_494,
                "797c5a29e124c48fcc31f37eb8e2f28fc9909eaf8cbad783117b123b4cb3d1c5",
                "UCI HAR's own subject_train, y_train (7352,), subject_test, y_test (2947,)",
            ),
        ),
    ),
    DataSet(
        "digits_by_writer",
        "MNIST's training digits, grouped by who wrote them",
        "MNIST: CC BY-SA 3.0 as usually given; NIST SD 19: public domain; QMNIST: BSD-3-Clause",
        "MNIST, with the writers of https://github.com/facebookresearch/qmnist",
        (
            DataFile(
                "first50.npz",
                899_450,
                "13790ae611cc96a91c382455e0c115c6bf544708b704fa987884b812a90e436b",
                "50 writers: image (5281, 28, 28), label, writer, hsf, digit_index, mnist_index, "
                "is_test (5281,)",
            ),
            DataFile(
                "all539.npz",
                9_906_157,
                "01344f16eab5956932d5e06893b9c66f21b4741efc54d9f86ee880eb10310d4d",
                "539 writers: image (60000, 28, 28), label, writer, hsf, digit_index, "
                "mnist_index, is_test (60000,)",
            ),
        ),
    ),
    DataSet(
        "femnist_sample",
        "handwritten characters of 206 people, about 30 each (the test part of LEAF's FEMNIST)",
        "LEAF: BSD-2-Clause; NIST SD 19: public domain; the repository states none",
        "https://github.com/s-huu/PMTL, data/femnist/data/test/mytest.json.zip",
        (
            DataFile(
                "femnist_sample.npz",
                705_707,
                "8e8fe7ecf4320d427a481e03ddb214374e21ee1cdfb1e58acedd37bbf58729dc",
                "image (6237, 28, 28), label, user (6237,)",
            ),
        ),
    ),
    DataSet(
        "credit_default",
        "30,000 credit card clients in Taiwan and who defaulted, 2005",
        "CC BY 4.0",
        "https://archive.ics.uci.edu/dataset/350/default+of+credit+card+clients",
        (
            DataFile(
                "credit_default.npz",
                961_619,
                "53fed3c74785258cbc44459e0b315343132e04aaa88afcd603349acd54d8dd91",
                "X (30000, 23), y (30000,), feature (23,)",
            ),
        ),
    ),
    DataSet(
        "cdc_diabetes",
        "health indicators of 253,680 people and who has diabetes (BRFSS 2015)",
        "CC0 (public domain)",
        "https://archive.ics.uci.edu/dataset/891/cdc+diabetes+health+indicators",
        (
            DataFile(
                "cdc_diabetes.npz",
                1_170_715,
                "674c8931abc9bd0b3603d7be878094d08928449f74957bbaee09de2367f46e59",
                "X (253680, 21), y (253680,), feature (21,)",
            ),
        ),
    ),
    DataSet(
        "support2",
        "9,105 seriously ill hospital patients and who died",
        "CC BY 4.0 as UCI lists it; Vanderbilt asks to be acknowledged",
        "https://archive.ics.uci.edu/static/public/880/support2.zip",
        (
            DataFile(
                "support2.csv.gz",
                762_223,
                "f310ae161c704ddc9de14b687b8e8d4f082641dfc5667368692b6dab5c4367a6",
                "a row number and 47 columns, 9105 rows",
            ),
        ),
    ),
    DataSet(
        "cec2005",
        "shifts, rotations and test values of the CEC 2005 benchmark functions F1 to F20",
        "none stated (widely redistributed)",
        "http://www.ntu.edu.sg/home/EPNSugan/index_files/CEC-05/CEC05.htm; a copy: "
        "https://github.com/yannxin/CEC2005",
        (
            DataFile(
                "cec2005_official.npz",
                835_923,
                "0b0091313b4c565acfada83b0e1d6a32536cb6ceecfe78da87ec04e7bfed0f83",
                "o_*, A_f5, a_f12, b_f12, alpha_f12, M_*, fbias, global_optima, test_*",
            ),
        ),
        (
            DataFile(
                "reference_10d.json",
                6_854,
                "38fb367e5c479fd64dd552cef54f032a75b73d01969e9f53f58ed5d8b8bb0bf4",
                "bounds, optima and values of each function in 10 dimensions",
            ),
        ),
    ),
)

DATA_SETS: Mapping[str, DataSet] = {data_set.name: data_set for data_set in _SETS}
