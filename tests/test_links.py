"""Every relative link of every page leads to a file, and its anchor to a heading there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firn.settings import PROJECT_ROOT

PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "infra/**/*.md", "connectors/**/*.md", "firn_local/*.md")
    for page in PROJECT_ROOT.glob(pattern)
)


def prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT_ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)) if "://" not in link]
    targets = [(link, (page.parent / link.partition("#")[0]) if not link.startswith("#") else page) for link in links]
    assert [link for link, target in targets if not target.exists()] == []
    assert [link for link, target in targets if "#" in link and link.partition("#")[2] not in anchors(target)] == []
