"""Published tables beside ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsim.errors import ConfigError
from fedsim.results.published import Published, published_names, put_beside, read_published


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [("1", 20, 6), ("2", 3, 3), ("3", 4, 3), ("4", 4, 4)],
)
def test_the_tables_of_fbo_fedgp(name: str, rows: int, columns: int) -> None:
    found = read_published(f"fbo-fedgp-table-{name}")
    assert len(found.values) == rows
    assert {len(row) for row in found.values.values()} == {columns}
    assert found.source == f"FBO-FedGP, Table {name}"
    assert len(published_names()) == 4


def table(**values: dict[str, float]) -> Published:
    return Published(source="A paper", values=values)


def test_rows_and_columns_match_by_their_letters_and_values() -> None:
    found = put_beside(
        table(**{"credit-card": {"8": 1.0, "16": 2.0, "FBO-FedGP": 3.0}, "other": {"8": 4.0}}),
        ["Credit Card", "diabetes"],
        ["size=8", "fbo_fedgp"],
    )
    assert found.methods == ("size=8", "16", "fbo_fedgp")
    assert found.values == {
        ("Credit Card", "size=8"): 1.0,
        ("Credit Card", "16"): 2.0,
        ("Credit Card", "fbo_fedgp"): 3.0,
    }


def test_a_table_of_other_problems_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"none of our problems \(F1\) is in A paper: F2"):
        put_beside(table(F2={"a": 1.0}), ["F1"], ["a"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source: x", "values: Field required"),
        ("source: x\nvalues: {a: {b: c}}", "values.a.b: Input should be a valid number"),
        ("source: x\nvalues: {}\nmetrics: seconds", "metrics: Extra inputs"),
        ("[1", "cannot be read"),
        ("a", "the file: Input should be"),
    ],
)
def test_files_that_are_no_table(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_published(path)


def test_a_table_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match="did you mean 'fbo-fedgp-table-1'"):
        read_published("fbo-fedgp-table1")
