"""Parts of the documentation that tests read."""

from __future__ import annotations

import re
from pathlib import Path

CONFIGURATION = Path(__file__).parents[2] / "docs" / "configuration.md"


def section_of(scenario: str) -> str:
    """Return what the page of settings says about one scenario, from its name to the next one's."""
    page = CONFIGURATION.read_text("utf-8")
    parts = re.split(r"^(?=`[a-z0-9-]+`:|#)", page, flags=re.MULTILINE)
    (found,) = (part for part in parts if part.startswith(f"`{scenario}`:"))
    return found
