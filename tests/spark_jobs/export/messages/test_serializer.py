"""Rows of an outbox become the messages that each envelope, format, mask, key and row function promises."""

from __future__ import annotations

import io
import json
import struct
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import fastavro
import jsonschema
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from pydantic import SecretStr

from firn.connector.export.config import Envelope, ExportConfig, MaskConfig, MessageConfig, MessageFormat, QualityCheck
from firn.errors import ConfigError
from firn.exports.columns import SourceColumn, SourceColumns
from firn.exports.source import Source
from spark_jobs.export.messages.envelopes import Change
from spark_jobs.export.messages.serializer import Output, Registries, RowError, Serializer
from tests.support.exports import ORDERS, PLAIN, change, source_of

ROW = {"ID": 1, "STATUS": "new", "AMOUNT": "12.50"}


class FakeRegistry:
    """What the registry's client answers, in memory; it takes every schema."""

    def __init__(self) -> None:
        self._conf = {"url": "http://registry"}
        self.subjects: dict[str, list[tuple[str, str]]] = {}
        self.texts: list[str] = []

    def register_schema(self, subject: str, schema: Schema) -> int:
        """The schema's id."""
        text = cast("str", schema.schema_str)
        if text not in self.texts:
            self.texts.append(text)
        self.subjects.setdefault(subject, []).append((text, str(schema.schema_type)))
        return self.texts.index(text) + 1

    def lookup_schema(self, subject: str, schema: Schema) -> Any:
        """What the subject knows of exactly this schema."""
        if not any(text == schema.schema_str for text, _ in self.subjects.get(subject, [])):
            raise SchemaRegistryError(404, 40403, "Schema not found")
        return _Known(self.texts.index(cast("str", schema.schema_str)) + 1)

    def get_latest_version(self, subject: str) -> Any:
        """The newest schema of a subject."""
        if subject not in self.subjects:
            raise SchemaRegistryError(404, 40401, "Subject not found")
        return _Version(Schema(self.subjects[subject][-1][0], "AVRO"))


class _Known:
    def __init__(self, schema_id: int) -> None:
        self.schema_id = schema_id


class _Version:
    def __init__(self, schema: Schema) -> None:
        self.schema = schema


def outputs(
    *changes: Change, config: ExportConfig = PLAIN, source: Source | None = None, columns: SourceColumns = ORDERS
) -> list[Output]:
    """The messages of these rows."""
    serializer = Serializer(source or source_of(columns), config, {1: columns})
    return [output for each in changes for output in serializer.messages(each)]


def with_registry(config: ExportConfig, registry: FakeRegistry, versions: dict[int, SourceColumns]) -> Serializer:
    """A serializer whose schemas go into this registry."""
    client = cast("SchemaRegistryClient", registry)
    return Serializer(source_of(versions[max(versions)]), config, versions, Registries(client, client))


def avro(registry: FakeRegistry, value: bytes | None) -> Any:
    """A framed value read with the schema that its id names."""
    assert value is not None
    magic, schema_id = struct.unpack(">bI", value[:5])
    assert magic == 0
    body, schema = io.BytesIO(value[5:]), json.loads(registry.texts[schema_id - 1])
    read = fastavro.schemaless_reader(body, schema, None)
    assert not body.read()
    return read


def test_a_row_has_its_key_value_and_headers() -> None:
    (found,) = outputs(change(ROW))
    assert found.key == b"1"
    assert found.value == b'{"ID":1,"STATUS":"new","AMOUNT":12.50}'
    assert found.headers == [
        ("firn.action", b"INSERT"),
        ("firn.isupdate", b"false"),
        ("firn.row_id", b"r1"),
        ("firn.batch", b"7"),
        ("firn.source", b"orders"),
    ]


def test_a_deleted_row_is_a_tombstone_or_its_last_values() -> None:
    assert [each.value for each in outputs(change(ROW, "DELETE"))] == [None]
    (last,) = outputs(change(ROW, "DELETE"), config=replace(PLAIN, tombstones=False))
    assert json.loads(last.value or b"")["STATUS"] == "new"
    keyless = source_of(key_columns=())
    (last,) = outputs(change(ROW, "DELETE"), source=keyless)
    assert last.key is None
    assert last.value is not None


def test_debezium_tells_creates_updates_deletes_and_first_rows() -> None:
    old = {**ROW, "STATUS": "old"}
    config = replace(PLAIN, envelope=Envelope.DEBEZIUM)
    found = outputs(
        change(ROW, snapshot=True),
        change(ROW),
        change(ROW, before=old, is_update=True),
        change(ROW, "DELETE"),
        config=config,
    )
    values = [each.value and json.loads(each.value) for each in found]
    assert [value and value["op"] for value in values] == ["r", "c", "u", "d", None]
    assert values[2]["before"]["STATUS"] == "old"
    assert values[2]["after"]["STATUS"] == "new"
    assert values[3]["before"]["STATUS"] == "new"
    assert values[3]["after"] is None
    assert values[0]["source"] | {"ts_ms": 0} == {
        "connector": "firn",
        "name": "orders-out",
        "db": "DB",
        "schema": "SHOP",
        "table": "ORDERS",
        "ts_ms": 0,
        "snapshot": "true",
        "batch": 7,
        "row_id": "r1",
    }


def test_an_update_of_the_key_is_a_delete_a_tombstone_and_a_create() -> None:
    old, new = {**ROW, "ID": 1}, {**ROW, "ID": 2}
    config = replace(PLAIN, envelope=Envelope.DEBEZIUM)
    found = outputs(change(old, "DELETE", is_update=True), change(new, before=old, is_update=True), config=config)
    assert [(each.key, each.value and json.loads(each.value)["op"]) for each in found] == [
        (b"1", "d"),
        (b"1", None),
        (b"2", "c"),
    ]


def test_the_change_envelope_is_that_of_a_plain_loop() -> None:
    config = replace(PLAIN, envelope=Envelope.CHANGE)
    first, gone, tombstone = outputs(change(ROW, "DELETE", is_update=True), change(ROW, "DELETE"), config=config)
    assert json.loads(first.value or b"") == {
        "timestamp": "2023-11-14T22:13:20.000+00:00",
        "action": "DELETE",
        "is_update": True,
        "data": {"ID": 1, "STATUS": "new", "AMOUNT": 12.5},
    }
    assert gone.value
    assert tombstone.value is None


@pytest.mark.parametrize("envelope", Envelope)
def test_avro_of_every_envelope_is_read_back(envelope: Envelope) -> None:
    registry = FakeRegistry()
    both = MessageConfig(MessageFormat.AVRO)
    config = replace(PLAIN, key=both, value=both, envelope=envelope)
    serializer = with_registry(config, registry, {1: ORDERS})
    (found,) = serializer.messages(change(ROW, before={**ROW, "STATUS": None}, is_update=True))
    row = {"ID": 1, "STATUS": "new", "AMOUNT": Decimal("12.50")}
    assert avro(registry, found.key) == {"ID": 1}
    value = avro(registry, found.value)
    read = {Envelope.ROW: value, Envelope.CHANGE: value.get("data"), Envelope.DEBEZIUM: value.get("after")}[envelope]
    assert read == row
    if envelope is Envelope.DEBEZIUM:
        assert value["before"] == {**row, "STATUS": None}
    assert sorted(registry.subjects) == ["order-status-key", "order-status-value"]


@pytest.mark.parametrize("envelope", Envelope)
def test_json_schema_describes_its_values(envelope: Envelope) -> None:
    registry = FakeRegistry()
    config = replace(PLAIN, value=MessageConfig(MessageFormat.JSON_SCHEMA), envelope=envelope)
    columns = (
        *ORDERS,
        SourceColumn("AT", "TIMESTAMP_NTZ(9)"),
        SourceColumn("X", "FLOAT"),
        SourceColumn("V", "VARIANT"),
    )
    serializer = with_registry(config, registry, {1: columns})
    row = {**ROW, "AT": "2026-01-02T03:04:05.123456789", "X": "NaN", "V": {"a": [1]}}
    for each in (row, {**row, "AT": None, "X": None, "V": None, "STATUS": None}):
        (found,) = serializer.messages(change(each))
        value = json.loads((found.value or b"")[5:])
        schema = json.loads(registry.texts[0])
        jsonschema.Draft7Validator.check_schema(schema)
        jsonschema.validate(value, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**value, "other": 1}, schema)


def test_connects_envelope_has_schema_and_payload() -> None:
    config = replace(PLAIN, value=MessageConfig(MessageFormat.JSON_ENVELOPE))
    (found,) = outputs(change(ROW), config=config)
    value = json.loads(found.value or b"")
    assert value["payload"] == {"ID": 1, "STATUS": "new", "AMOUNT": "BOI="}
    fields = {each["field"]: each for each in value["schema"]["fields"]}
    assert fields["ID"] == {"type": "int64", "optional": False, "field": "ID", "doc": "order number"}
    assert fields["AMOUNT"]["name"] == "org.apache.kafka.connect.data.Decimal"
    assert fields["AMOUNT"]["parameters"]["scale"] == "2"


def test_columns_that_come_may_be_null_and_old_rows_keep_their_schema() -> None:
    registry = FakeRegistry()
    config = replace(PLAIN, value=MessageConfig(MessageFormat.AVRO))
    wider = (*ORDERS[:1], SourceColumn("NOTE", "VARCHAR(10)", nullable=False), *ORDERS[1:])
    serializer = with_registry(config, registry, {1: ORDERS, 2: wider})
    (old,) = serializer.messages(change(ROW))
    (new,) = serializer.messages(change({**ROW, "NOTE": "x"}, version=2))
    (late,) = with_registry(config, registry, {1: ORDERS, 2: wider}).messages(change(ROW))
    assert late.value == old.value
    assert avro(registry, new.value)["NOTE"] == "x"
    reader, writer = json.loads(registry.texts[1]), json.loads(registry.texts[0])
    body = io.BytesIO((old.value or b"")[5:])
    assert cast("Any", fastavro.schemaless_reader(body, writer, reader))["NOTE"] is None
    assert len(registry.texts) == 2
    with_registry(config, registry, {2: wider}).messages(change({**ROW, "NOTE": "x"}, version=2))
    assert len(registry.texts) == 2, "the same columns have the same schema after a restart"


def test_a_schema_that_somebody_else_registers_is_asked_for() -> None:
    config = replace(PLAIN, value=MessageConfig(MessageFormat.AVRO, auto_register=False))
    with pytest.raises(ConfigError, match="Subject order-status-value has no version with this schema"):
        with_registry(config, FakeRegistry(), {1: ORDERS}).messages(change(ROW))


def test_names_that_avro_lacks_are_replaced_one_by_one() -> None:
    registry = FakeRegistry()
    columns = (SourceColumn("1 a", "NUMBER(5,0)"), SourceColumn("1-a", "NUMBER(5,0)"), SourceColumn("ok", "BOOLEAN"))
    config = replace(PLAIN, value=MessageConfig(MessageFormat.AVRO))
    (found,) = with_registry(config, registry, {1: columns}).messages(change({"1 a": 1, "1-a": 2, "ok": True}))
    assert avro(registry, found.value) == {"_1_a": 1, "_1_a_2": 2, "ok": True}
    assert json.loads(registry.texts[0])["fields"][1]["column"] == "1-a"


def test_masked_columns_show_nothing_in_values_keys_and_letters() -> None:
    masks = (
        MaskConfig(("STATUS",), "hash", salt=SecretStr("pepper")),
        MaskConfig((r"SHOP\.ORDERS\.AMOUNT",), "replace", text="***"),
        MaskConfig(("ID",), "truncate", length=2),
    )
    source = source_of(masks=masks)
    row = {"ID": 123456, "STATUS": "secret", "AMOUNT": "12.50"}
    (found,) = outputs(change(row), source=source)
    value = json.loads(found.value or b"")
    assert value["ID"] == "12"
    assert found.key == b"12"
    assert value["AMOUNT"] == "***"
    assert len(value["STATUS"]) == 64
    letter = Serializer(source, PLAIN, {1: ORDERS}).letter(change(row), RowError("value", "why"))
    assert b"secret" not in (letter.value or b"")
    assert b"12.50" not in (letter.value or b"")
    assert dict(letter.headers)["__connect.errors.exception.message"] == b"value: why"


@pytest.mark.parametrize(
    ("row", "detail"),
    [
        ({**ROW, "ID": None}, "ID is null, and its field may not be"),
        ({**ROW, "AMOUNT": "1.005"}, r"AMOUNT: '1.005' is no decimal\(12,2\)"),
    ],
)
def test_a_row_that_does_not_fit_says_which_column(row: dict[str, Any], detail: str) -> None:
    with pytest.raises(RowError, match=detail):
        outputs(change(row), source=source_of(key_columns=()))


def test_types_are_overridden_by_column() -> None:
    source = source_of(types=(("amount", "double"), ("ID", "string")))
    (found,) = outputs(change(ROW), source=source)
    assert json.loads(found.value or b"") == {"ID": "1", "STATUS": "new", "AMOUNT": 12.5}


def test_several_key_columns_are_joined() -> None:
    (found,) = outputs(change(ROW), source=source_of(key_columns=("STATUS", "ID")))
    assert found.key == b"new|1"


FUNCTIONS = """
def doubled(row):
    row["AMOUNT"] = row["AMOUNT"] * 2
    return row

def split(row):
    return [{**row, "STATUS": part} for part in row["STATUS"].split()]

def filtered(row):
    return row if row["ID"] > 1 else None

def wider(row):
    return {**row, "EXTRA": {"of": row["AMOUNT"]}}

def broken(row):
    return row["NOTHING"]
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with a module of row functions."""
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    monkeypatch.delitem(__import__("sys").modules, "own_rows", raising=False)
    (tmp_path / "own_rows.py").write_text(FUNCTIONS)
    return str(tmp_path)


def of_function(name: str, folder: str, row: dict[str, Any]) -> list[Any]:
    config = replace(PLAIN, row_function=f"own_rows:{name}", function_path=folder)
    return [json.loads(each.value or b"") for each in outputs(change(row), config=config)]


def test_a_row_function_changes_splits_filters_and_adds(functions: str) -> None:
    assert of_function("doubled", functions, ROW)[0]["AMOUNT"] == 25.0
    assert [row["STATUS"] for row in of_function("split", functions, {**ROW, "STATUS": "a b"})] == ["a", "b"]
    assert of_function("filtered", functions, ROW) == []
    assert of_function("wider", functions, ROW)[0]["EXTRA"] == {"of": 12.5}


def test_a_row_function_that_fails_makes_a_bad_row(functions: str) -> None:
    with pytest.raises(RowError, match="NOTHING") as raised:
        of_function("broken", functions, ROW)
    assert raised.value.reason == "row function"
    with pytest.raises(ConfigError, match="cannot be loaded"):
        of_function("absent", functions, ROW)


def test_a_check_that_asks_for_dead_letters_makes_a_bad_row() -> None:
    checks = (QualityCheck("positive", "AMOUNT > 0", "dead letter"), QualityCheck("known", "TRUE", "warn"))
    source = source_of(checks=checks)
    with pytest.raises(RowError, match="does not meet positive"):
        outputs(change(ROW, failed=["positive", "known"]), source=source)
    assert outputs(change(ROW, failed=["known"]), source=source)
