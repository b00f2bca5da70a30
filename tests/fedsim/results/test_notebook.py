"""How a run is shown in a notebook."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import fedsim
from tests.util.small import small


def test_one_row_per_variant(here: Path) -> None:
    run = fedsim.run(small(variants={"a": {}, "<b> & c": {}}, seeds=[0, 1]))
    run.runs[0].folder.update_manifest(status="failed")
    (run.runs[1].folder.path / "manifest.json").write_text("garbage")
    html = ElementTree.fromstring(f"<div>{run._repr_html_()}</div>")
    head, first, second = ([cell.text for cell in row] for row in html.iter("tr"))
    assert head == [
        "variant",
        "seeds",
        "mean simple regret",
        "mean inference regret",
        "best observed",
    ]
    assert first == ["a", "1 failed, 1 damaged", None, None, None]
    assert second[:2] == ["<b> & c", "2 done"]
    assert all("±" in (cell or "") for cell in second[2:])


def test_nothing_is_done_yet(here: Path) -> None:
    run = fedsim.run(small())
    (run.runs[0].folder.path / "manifest.json").unlink()
    assert "1 not started" in run._repr_html_()
