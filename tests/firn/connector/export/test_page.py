"""docs/configuration-export.md is what the definitions say."""

from __future__ import annotations

from firn.connector.export.document import PATH, document
from firn.settings import PROJECT_ROOT


def test_the_page_is_generated_from_the_definitions() -> None:
    found = (PROJECT_ROOT / PATH).read_text(encoding="utf-8")
    assert found == document(), "run `python -m firn.connector.export.document`"
