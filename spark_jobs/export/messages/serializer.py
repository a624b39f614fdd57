"""Rows of a source's outbox as messages: everything of a source and a version of its columns, put together once.

A row that no message can be made of raises RowError with its reason; whatever else is raised (a registry that refuses a
schema, or does not answer) is about all rows and makes no dead letter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import orjson

from firn.connector.export.config import ExportConfig
from firn.dead_letters import envelope as dead_letter
from firn.errors import TerminalError
from firn.exports.columns import ColumnVersions, SourceColumn
from firn.exports.source import Source
from firn.kafka.transactional_producer import Header
from spark_jobs.export.messages.encoders import Encoder, Subjects, encoder_for, nested_in
from spark_jobs.export.messages.envelopes import AnyEnvelope, Change, Images, envelope_for
from spark_jobs.export.messages.row_function import RowFunction, applied, row_function
from spark_jobs.export.messages.rows import Mask, RowReader, masks_of, payload_json
from spark_jobs.export.messages.schema import Field, Record, avro_namespace
from spark_jobs.export.messages.types import Form, Scalar, named_scalar, scalar_of
from spark_jobs.export.messages.values import python_value

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

Reason = Literal["value", "row function", "quality check", "too large"]
_DATA_EXCEPTION = "org.apache.kafka.connect.errors.DataException"
_LONGEST = 4000
_TEXT = Scalar(Form.STRING)


class RowError(Exception):
    """A row that no message can be made of; detail: why, for a person. Masked values are masked there too."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


class Output(NamedTuple):
    """One message for the source's topic; value None: a tombstone."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]


@dataclass(frozen=True)
class Registries:
    """Clients of the registries that keys and values go to; None where a format needs none."""

    key: SchemaRegistryClient | None = None
    value: SchemaRegistryClient | None = None


class Serializer:
    """Makes messages of one source's rows. For one thread.

    versions: the source's columns by version, from its state.
    """

    def __init__(
        self, source: Source, config: ExportConfig, versions: ColumnVersions, registries: Registries | None = None
    ) -> None:
        self._source, self._config, self._versions = source, config, versions
        self._registries = registries or Registries()
        self._layouts: dict[int, _Layout] = {}
        self._function: RowFunction | None = None
        if config.row_function:
            self._function = row_function(config.row_function, config.function_path)
        actions = {check.name: check.action for check in source.config.checks}
        self._letter_checks = {name for name, action in actions.items() if action == "dead letter"}

    def messages(self, change: Change) -> list[Output]:
        """The messages of a row: none where the row function leaves it out. Raises RowError, and registry's errors."""
        checks = self._letter_checks
        if checks and change.failed and (broken := checks.intersection(orjson.loads(change.failed))):
            raise RowError("quality check", f"the row does not meet {', '.join(sorted(broken))}")
        layout = self._layout(change.version)
        try:
            return layout.messages(change)
        except ValueError as error:
            raise RowError("value", str(error)) from None

    def letter(self, change: Change, error: RowError) -> Output:
        """The dead letter of a row: its values as JSON, masked, with the headers that Kafka Connect's letters have.

        Of a row that is too large for its topic it has the key columns alone: the rest would be too large here too.
        """
        row = self._layout(change.version).reader.read(change.payload)
        if error.reason == "too large":
            row = {column.name: row[column.name] for column in self._source.key}
        message = f"{error.reason}: {error.detail}"[:_LONGEST]
        about = {
            dead_letter.TOPIC: self._source.topic,
            dead_letter.CONNECTOR: self._config.name,
            dead_letter.STAGE: "VALUE_CONVERTER",
            dead_letter.EXCEPTION: _DATA_EXCEPTION,
            dead_letter.MESSAGE: message,
        }
        envelope: list[Header] = [(name, text.encode(errors="replace")) for name, text in about.items()]
        return Output(None, payload_json(row), headers_of(change, self._source.name) + envelope)

    def _layout(self, version: int) -> _Layout:
        found = self._layouts.get(version)
        if found is None:
            if version not in self._versions:
                raise TerminalError(
                    f"Rows of source {self._source.name} have version {version} of its columns, which nobody knows.",
                    where=self._source.outbox,
                    next_step="Start the export again; if this comes again, FIRN_EXPORTS was edited by hand.",
                )
            found = _Layout(self._source, self._config, self._versions[version], self._registries, self._function)
            self._layouts[version] = found
        return found


def headers_of(change: Change, source: str) -> list[Header]:
    """What every message says about its row: by batch and row id it is found in FIRN_EXPORT_HISTORY and the source."""
    return [
        ("firn.action", change.action.encode()),
        ("firn.isupdate", b"true" if change.is_update else b"false"),
        ("firn.row_id", (change.row_id or "").encode()),
        ("firn.batch", b"%d" % change.batch),
        ("firn.source", source.encode()),
    ]


class _Layout:
    """How rows of one version of the columns become messages."""

    def __init__(
        self,
        source: Source,
        config: ExportConfig,
        columns: tuple[SourceColumn, ...],
        registries: Registries,
        function: RowFunction | None,
    ) -> None:
        self._source, self._function = source, function
        scalars = _scalars(source, columns)
        masks = masks_of(source.config.masks, source.where, columns, scalars)
        self.reader = RowReader(scalars, masks)
        self._scalars = _masked(scalars, masks)
        namespace = avro_namespace(source.topic)
        row = Record("Value", namespace, tuple(_field(column, self._scalars[column.name]) for column in columns))
        self._envelope = _envelope(config, row, source)
        self._values = _encoder(config, "value", source.topic, row, self._envelope.message, registries.value)
        self._key_names = [column.name for column in source.key]
        self._keys: Encoder | None = None
        if self._key_names:
            by_name = {field.name: field for field in row.fields}
            key = Record("Key", namespace, tuple(by_name[name] for name in self._key_names))
            self._keys = _encoder(config, "key", source.topic, key, key, registries.key)

    def messages(self, change: Change) -> list[Output]:
        """As `Serializer.messages`; a value that does not fit raises ValueError."""
        row = self.reader.read(change.payload)
        before = self.reader.read(change.before) if change.before else None
        if before is not None and any(before[name] != row[name] for name in self._key_names):
            before = None
        key = self._key(row)
        headers = headers_of(change, self._source.name)
        encode = self._values.encode
        return [
            Output(key, None if value is None else encode(value), headers)
            for images in self._images(row, before)
            for value in self._envelope.values(change, images, keyed=key is not None)
        ]

    def _images(self, row: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[Images]:
        convert = self._values.row
        if self._function is None:
            return [Images(convert(row), None if before is None else convert(before))]
        rows = self._applied(self._function, row)
        old = self._applied(self._function, before)[:1] if before is not None else []
        return [Images(convert(each), convert(old[0]) if old else None) for each in rows]

    def _applied(self, function: RowFunction, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        typed = {
            name: None if value is None else python_value(self._scalars[name], value) for name, value in row.items()
        }
        try:
            return applied(function, typed)
        except ValueError as error:
            raise RowError("row function", str(error)) from None

    def _key(self, row: Mapping[str, Any]) -> bytes | None:
        """The key's bytes; None without key columns, and where all of them are null."""
        if self._keys is None:
            return None
        values = {name: row[name] for name in self._key_names}
        if None in values.values() and not any(value is not None for value in values.values()):
            return None
        return self._keys.encode(self._keys.row(values))


def _scalars(source: Source, columns: tuple[SourceColumn, ...]) -> dict[str, Scalar]:
    named = {name.upper(): type_ for name, type_ in source.config.types}
    return {
        column.name: named_scalar(named[column.name.upper()], column.name)
        if column.name.upper() in named
        else scalar_of(column.parsed)
        for column in columns
    }


def _masked(scalars: Mapping[str, Scalar], masks: Mapping[str, Mask]) -> dict[str, Scalar]:
    """What is masked is text."""
    return {name: _TEXT if name in masks else scalar for name, scalar in scalars.items()}


def _field(column: SourceColumn, scalar: Scalar) -> Field:
    return Field(column.name, scalar, nullable=column.nullable, doc=column.comment)


def _envelope(config: ExportConfig, row: Record, source: Source) -> AnyEnvelope:
    nested: Callable[[Any], Any] = nested_in(config.value.format, row)
    return envelope_for(config.envelope, row, source, nested, tombstones=config.tombstones)


def _encoder(
    config: ExportConfig,
    side: Literal["key", "value"],
    topic: str,
    row: Record,
    message: Record,
    client: SchemaRegistryClient | None,
) -> Encoder:
    chosen = config.key if side == "key" else config.value
    subjects = Subjects(client, chosen.auto_register) if client is not None else None
    return encoder_for(chosen.format, side, topic, row, message, subjects)
