"""A bundle for a bug report: configuration, status and logs of a sink, without a secret in any of its files.

Each part is collected on its own: a part that cannot be collected is named, and the others are there. Where a secret
could not be read, so that nobody knows what to mask, the logs are left out.
"""

from __future__ import annotations

import json
import logging
import os
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from firn.connector.file import read_connector_file
from firn.connector.outcome import CheckedConfig
from firn.connector.parse import check_sink_config
from firn.connector.references import Resolver
from firn.errors import ConfigError, FirnError, TransientError
from firn.kafka.jaas import JaasError, parse
from firn.ledger.schema_changes import SchemaChanges
from firn.operations.log_files import LogReader, driver_log
from firn.operations.masking import Masking, RecordingResolver
from firn.operations.observer import Observer
from firn.operations.selection import of_config
from firn.operations.status import Status
from firn.operations.validation.live_check import impatient
from firn.operations.versions import versions
from firn.redaction import HIDDEN
from firn.secrets import KafkaSecret, RegistrySecret, SnowflakeSecret, read_secret, secret_reader
from firn.settings import Settings
from firn.sinks.context import SinkContext, spark_log
from firn.snowflake.connection import connect

log = logging.getLogger(__name__)
LOG_LINES = 2000
CHANGES = 100
_ENVIRONMENT = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "PREFECT_API_KEY")


@dataclass(frozen=True)
class Part:
    """One file of the bundle. state: collected or missing; detail: why it is missing, or what is in it."""

    name: str
    state: str
    detail: str = ""


class _Absent(Exception):  # noqa: N818 (never leaves this module)
    """A part that is not there, with the reason."""


class Bundle:
    """Collects everything about one sink. Raises ConfigError for a file that is no connector file."""

    def __init__(self, file: Path, settings: Settings) -> None:
        self._given, self._settings = settings, impatient(settings)
        self._raw = read_connector_file(file)
        self._where = str(file)
        self.masking = Masking()
        self._faults: list[str] = []
        self._checked = self._check()
        self._know_secrets()
        self._context: SinkContext | None = None

    @property
    def sink(self) -> str:
        """The sink's name."""
        return self._raw.get("name") or "unnamed"

    def write(self, target: Path) -> list[Part]:
        """Write the bundle; what each part is. Raises ConfigError where the file is there or cannot be written."""
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise ConfigError(
                f"The report cannot be written: {error.strerror}.",
                where=str(target),
                next_step="Name another --output.",
            ) from None
        with os.fdopen(descriptor, "wb") as opened, zipfile.ZipFile(opened, "w", zipfile.ZIP_DEFLATED) as bundle:
            parts = []
            for name, collect in self._collectors().items():
                part, text = self._collected(name, collect)
                parts.append(part)
                if part.state == "collected":
                    bundle.writestr(name, text)
            contents = [asdict(part) for part in parts]
            bundle.writestr("contents.json", _json({"sink": self.sink, "at": datetime.now(UTC), "parts": contents}))
        return parts

    def _collectors(self) -> dict[str, Callable[[], str]]:
        return {
            "configuration.json": lambda: _json(_configuration(self._checked)),
            "settings.json": lambda: _json(self._given.model_dump(mode="json")),
            "versions.json": lambda: _json(versions()),
            "status.json": self._status,
            "schema_changes.json": self._schema_changes,
            "sink.log": lambda: self._log(driver_log(self._settings, self.sink)),
            "spark.log": lambda: self._log(spark_log(self._settings, self.sink)),
        }

    def _collected(self, name: str, collect: Callable[[], str]) -> tuple[Part, str]:
        """A part and its text, masked; never raises for what the part meets."""
        try:
            return Part(name, "collected"), self.masking(collect())
        except FirnError as error:
            detail = str(error)
        except _Absent as absent:
            detail = str(absent)
        except Exception as error:
            log.debug("a part of the report could not be collected", exc_info=True)
            detail = f"unexpected {type(error).__name__}: {error}"
        return Part(name, "missing", self.masking(detail)), ""

    # Secrets

    def _check(self) -> CheckedConfig:
        resolver = RecordingResolver(Resolver(secret_reader(self._settings)), self.masking)
        try:
            return check_sink_config(self._raw, where=self._where, resolver=resolver)
        except TransientError as error:
            self._faults.append(error.what)
            return check_sink_config(self._raw, where=self._where)

    def _know_secrets(self) -> None:
        shown = {each.name: each.value_shown for each in self._checked.effective}
        for name, value in self._raw.items():
            if name != "name" and (HIDDEN in shown.get(name, HIDDEN)) and value.strip():
                self.masking.add(value)
                self._know_jaas(value)
        for name in _ENVIRONMENT:
            self.masking.add(os.environ.get(name, ""))
        self._know_fields(self._settings)
        for secret_id, kind in (
            (self._settings.kafka_secret_id, KafkaSecret),
            (self._settings.registry_secret_id, RegistrySecret),
            (self._settings.snowflake_secret_id, SnowflakeSecret),
        ):
            self._know_secret(secret_id, kind)

    def _know_secret(self, secret_id: str, kind: type[Any]) -> None:
        try:
            secret = read_secret(self._settings, secret_id, kind)
        except ConfigError:
            return  # there is none, so there is nothing to mask
        except FirnError as error:
            self._faults.append(f"{error.what} ({error.where})")
            return
        self._know_fields(secret)
        if isinstance(secret, KafkaSecret | RegistrySecret):  # as a header of HTTP's basic authentication has them
            self.masking.add(f"{secret.api_key.get_secret_value()}:{secret.api_secret.get_secret_value()}")

    def _know_fields(self, model: Any) -> None:
        for value in vars(model).values():
            if isinstance(value, SecretStr):
                self.masking.add(value.get_secret_value())

    def _know_jaas(self, text: str) -> None:
        try:
            _, options = parse(text)
        except JaasError:
            return
        for name, value in options.items():
            if "secret" in name.lower() or "password" in name.lower():
                self.masking.add(value)

    # Parts

    def _reached(self) -> SinkContext:
        self._context = self._context or of_config(self._checked.require(), self._settings)
        return self._context

    def _status(self) -> str:
        context = self._reached()
        observer = Observer(context)
        try:
            status = Status.of(context.config, observer.look())
        except FirnError as fault:
            status = Status.of(context.config, observer.remembered(), fault)
        finally:
            seen = observer.remembered()
            observer.close()
        record = seen.record if seen else None
        return _json({"status": status.row(), "firn_sinks": record and asdict(record)})

    def _schema_changes(self) -> str:
        context = self._reached()
        with connect(context.login, query_tag="firn sink report") as connection:
            return _json(SchemaChanges(context.namespace, self.sink).newest(connection, CHANGES))

    def _log(self, file: Path) -> str:
        if self._faults:
            raise _Absent(f"A secret could not be read, so that it could not be masked: {'; '.join(self._faults)}")
        if not file.is_file():
            raise _Absent(f"There is no {file} on this machine: the sink ran elsewhere, or never.")
        return "".join(f"{line}\n" for line in LogReader(file).newest(LOG_LINES))


def _configuration(checked: CheckedConfig) -> dict[str, Any]:
    """What takes effect, what is wrong; secrets and what came from references are hidden already."""
    return {
        "faults": [str(each) for each in checked.faults],
        "warnings": [str(each) for each in checked.warnings],
        "effective": [asdict(each) for each in checked.effective],
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, default=str)
