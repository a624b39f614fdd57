"""The connector files of the four official documents are accepted as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.connector.config import Method, SinkConfig
from firn.connector.file import read_connector_file
from firn.connector.formats import Format
from firn.connector.outcome import CheckedConfig
from firn.connector.parameters import PARAMETERS
from firn.connector.parse import check_sink_config, parse_sink_config

FOLDER = Path("connectors/examples")
# file: parameters that a warning names
EXAMPLES: dict[str, set[str]] = {
    "classic-avro.json": set(),
    "classic-avro-embedded.json": set(),
    "classic-json.properties": set(),
    "course-managed.json": set(),
    "snowpipe-streaming.json": {"consumer.override.max.poll.records", "enable.streaming.client.optimization"},
    "snowpipe-streaming-schematized.properties": set(),
    "high-performance-v4.properties": set(),
}
# Every parameter that the four documents name, also those whose names the text of the classic one has lost.
NAMED = {
    "classic": (
        "name connector.class tasks.max topics topics.regex snowflake.topic2table.map buffer.count.records"
        " buffer.flush.time buffer.size.bytes snowflake.url.name snowflake.user.name snowflake.private.key"
        " snowflake.private.key.passphrase snowflake.database.name snowflake.schema.name key.converter value.converter"
        " value.converter.schema.registry.url value.converter.basic.auth.credentials.source"
        " value.converter.basic.auth.user.info jvm.proxy.host jvm.proxy.port"
    ),
    "snowpipe-streaming": (
        "snowflake.ingestion.method snowflake.role.name enable.streaming.client.optimization buffer.flush.time"
        " buffer.count.records buffer.size.bytes max.poll.records errors.tolerance errors.log.enable"
        " errors.deadletterqueue.topic.name snowflake.enable.schematization schema.registry.url"
    ),
    "high-performance-v4": (
        "snowflake.topic2table.map snowflake.metadata.topic snowflake.metadata.offset.and.partition"
        " snowflake.metadata.createtime snowflake.metadata.all behavior.on.null.values key.converter transforms"
        " errors.tolerance"
    ),
    "course": (
        "name connector.class kafka.api.key kafka.api.secret snowflake.url.name snowflake.user.name"
        " snowflake.private.key snowflake.database.name snowflake.schema.name snowflake.role.name topics"
        " input.data.format input.key.format buffer.count.records buffer.flush.time tasks.max auto.create.tables"
        " auto.evolve"
    ),
}


def checked(path: Path) -> CheckedConfig:
    return check_sink_config(read_connector_file(path), where=str(path))


def test_every_example_is_listed_here_and_in_the_readme() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert {path.name for path in FOLDER.iterdir()} == EXAMPLES.keys() | {"README.md"}
    for name in EXAMPLES:
        (row,) = [line for line in readme.splitlines() if line.startswith(f"| `{name}`")]
        assert "| runs |" in row


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_accepted_as_it_stands(name: str) -> None:
    found = checked(FOLDER / name)
    assert [str(fault) for fault in found.faults] == []
    assert {warning.name for warning in found.warnings} == EXAMPLES[name]


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_an_example_holds_of_secrets_are_references(name: str) -> None:
    given = read_connector_file(FOLDER / name)
    secrets = {name: value for name, value in given.items() if name in PARAMETERS and PARAMETERS[name].secret}
    assert all(value.startswith("${secretsmanager:") for value in secrets.values())


def without_references(name: str) -> SinkConfig:
    """The configuration of an example whose references to Secrets Manager are left out: nobody asks it here."""
    given = read_connector_file(FOLDER / name)
    return parse_sink_config({each: value for each, value in given.items() if "${" not in value}, where=name)


def test_the_examples_mean_what_their_documents_say() -> None:
    embedded = without_references("classic-avro-embedded.json")
    pets = without_references("high-performance-v4.properties")
    course = without_references("course-managed.json")
    assert embedded.value.format is Format.AVRO_FILE
    assert (pets.method, pets.null_values) == (Method.SNOWPIPE_STREAMING, "ignore")
    assert pets.value.hoist == ("your_top_level_field_name",)
    assert pets.table_map == ((".*_cat", "CAT_TABLE"), (".*_dog", "DOG_TABLE"))
    assert (course.method, course.tasks_max) == (Method.SNOWPIPE, 1)
    assert (course.buffer.records, course.buffer.seconds) == (10_000, 60)
    assert (course.value.format, course.key.format) == (Format.AVRO, Format.STRING)


@pytest.mark.parametrize("document", NAMED)
def test_every_parameter_that_a_document_names_is_known(document: str) -> None:
    assert [name for name in NAMED[document].split() if name not in PARAMETERS] == []


def test_the_sink_of_the_demo_is_valid_without_a_warning() -> None:
    found = checked(Path("connectors/order-events.json"))
    assert (found.faults, found.warnings) == ((), ())
    assert found.config is not None
