"""docs/export.md: every configuration in it is one that the parser takes, and so is that of the repository."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from firn.connector.export.config import Envelope, MessageFormat, SourceKind
from firn.connector.export.parse import check_export_config, load_export_config
from firn.settings import PROJECT_ROOT

PAGE = (PROJECT_ROOT / "docs/export.md").read_text()
DOCUMENTS: list[dict[str, Any]] = [json.loads(each) for each in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
SYSTEMS = (
    "Python script",
    "external function",
    "Airbyte",
    "CloudQuery",
    "NiFi",
    "Quix",
    "Hightouch",
    "CData",
    "Fivetran",
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each["name"])
def test_every_configuration_in_the_page_is_taken(document: dict[str, Any]) -> None:
    raw = {"name": document["name"], **document["config"]}
    assert [str(fault) for fault in check_export_config(raw, where="docs/export.md").faults] == []


def test_each_system_of_the_guide_has_its_section_and_its_row() -> None:
    for system in (*SYSTEMS, "Confluent Cloud"):
        assert re.search(rf"^\| .*{system}", PAGE, re.MULTILINE), system
        assert re.search(rf"^### \d+\. .*{system}", PAGE, re.MULTILINE), system
    assert len({document["name"] for document in DOCUMENTS}) == len(DOCUMENTS) >= len(SYSTEMS)


def test_the_example_of_the_repository_exports_the_current_state_of_orders() -> None:
    config = load_export_config(PROJECT_ROOT / "connectors/order-status.json")
    (source,) = config.sources
    assert (config.name, source.topic, source.key_columns) == ("order-status", "order-status", ("ORDER_ID",))
    assert (source.kind, config.envelope, config.value.format) == (SourceKind.TABLES, Envelope.ROW, MessageFormat.AVRO)
