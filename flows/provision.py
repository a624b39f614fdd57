"""The provision flow: creates or checks topic, subject and Snowflake, a task each. Not for how (firn/provision/)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_table_artifact
from pydantic import BaseModel, Field

from firn.errors import FirnError, TerminalError, TransientError
from firn.kafka.client import client_from_settings
from firn.kafka.cluster import admin_client
from firn.produce.run import order_schema
from firn.provision.findings import Finding, Mode
from firn.provision.logins import check_own_logins
from firn.provision.snowflake import check_snowflake
from firn.provision.subject import ensure_subject
from firn.provision.topic import ensure_topic, topic_spec
from firn.registry.avro_schema import read_schema
from firn.registry.login import login_from_secret, registry_client
from firn.retry import with_retries
from firn.secrets import RegistrySecret, read_secret
from firn.settings import Compatibility, Settings, load_settings
from firn.snowflake.logins import sink_login
from flows.prefect_ui.forms import described

ARTIFACT_KEY = "provision"


class ProvisionResult(BaseModel):
    """What was created or found, or would be changed."""

    findings: list[Finding]


class ProvisionError(TerminalError):
    """A step needs a person; the findings say which."""

    result: ProvisionResult | None = None


class ProvisionUnreachableError(TransientError):
    """A step got no answer; running it again may succeed."""

    result: ProvisionResult | None = None


@flow(name="provision", description="Create or check the topic, the schema and the Snowflake objects.")
@described
def provision(
    topic: Annotated[str | None, Field(description="Topic; empty: as in the settings (order-events).")] = None,
    partitions: Annotated[int | None, Field(ge=1, description="Partitions; empty: as in the settings (3).")] = None,
    replication_factor: Annotated[int | None, Field(description="Replicas; empty: as in the settings (-1).")] = None,
    retention_ms: Annotated[int | None, Field(description="retention.ms; empty: as in the settings.")] = None,
    compatibility: Annotated[Compatibility | None, Field(description="Compatibility mode; empty: settings.")] = None,
    schema_file: Annotated[Path | None, Field(description="Avro schema of <topic>-value; empty: OrderEvent.")] = None,
    dry_run: Annotated[bool, Field(description="Create nothing; list what would be created.")] = False,
    apply: Annotated[bool, Field(description="Also change what exists with other values.")] = False,
) -> ProvisionResult:
    """Create or check topic, subject and Snowflake. Runs every step, then raises if one of them failed."""
    settings = _with(
        load_settings(),
        topic=topic,
        topic_partitions=partitions,
        topic_replication_factor=replication_factor,
        topic_retention_ms=retention_ms,
        registry_compatibility=compatibility,
    )
    schema = _schema(schema_file, named=topic is not None and topic != load_settings().topic)
    mode = Mode(dry_run=dry_run, apply=apply)
    findings, errors = _run(
        {
            "kafka": lambda: topic_step(settings, mode),
            "schema registry": lambda: subject_step(settings, schema, mode) if schema else [],
            "snowflake": lambda: snowflake_step(settings),
        }
    )
    result = ProvisionResult(findings=findings)
    _publish(result)
    if errors:
        raise _failure(errors, result)
    return result


def _with(settings: Settings, **given: object) -> Settings:
    return settings.model_copy(update={name: value for name, value in given.items() if value is not None})


def _schema(schema_file: Path | None, *, named: bool) -> str | None:
    """The schema to register; a topic of another name has none until one is given."""
    if schema_file is not None:
        return read_schema(schema_file)
    return None if named else order_schema()


@task(name="topic")
def topic_step(settings: Settings, mode: Mode) -> list[Finding]:
    """Create or compare the topic."""
    client = client_from_settings(settings)
    spec = topic_spec(settings, settings.topic)
    return with_retries(settings.retry_deadline_seconds, lambda: ensure_topic(admin_client(client), spec, mode))


@task(name="subject")
def subject_step(settings: Settings, schema: str, mode: Mode) -> list[Finding]:
    """Register the schema and set the subject's compatibility."""
    secret = read_secret(settings, settings.registry_secret_id, RegistrySecret)
    client, subject = registry_client(login_from_secret(secret)), f"{settings.topic}-value"
    return with_retries(
        settings.retry_deadline_seconds,
        lambda: ensure_subject(client, subject, schema, settings.registry_compatibility, mode),
    )


@task(name="snowflake")
def snowflake_step(settings: Settings) -> list[Finding]:
    """Check login, database, schema and warehouse; and logins of their own for dbt and `firn sql`."""
    login, deadline = sink_login(settings), settings.retry_deadline_seconds
    found = with_retries(deadline, lambda: check_snowflake(login))
    return [*found, *with_retries(deadline, lambda: check_own_logins(settings))]


def _run(steps: dict[str, Callable[[], list[Finding]]]) -> tuple[list[Finding], list[FirnError]]:
    findings: list[Finding] = []
    errors: list[FirnError] = []
    for name, step in steps.items():
        try:
            findings += step()
        except FirnError as error:
            errors.append(error)
            findings.append(Finding(name, "", "failed", error.what))
    missing = [finding for finding in findings if finding.state in ("missing", "would fail")]
    errors += [TerminalError(f"{f.kind} {f.name}: {f.detail}.", next_step="Fix it and run again.") for f in missing]
    return findings, errors


def _failure(errors: list[FirnError], result: ProvisionResult) -> ProvisionError | ProvisionUnreachableError:
    """One error for all failures: terminal if any is, because then running again is not enough."""
    passing = all(isinstance(error, TransientError) for error in errors)
    kind = ProvisionUnreachableError if passing else ProvisionError
    error = kind("\n".join(map(str, errors)))
    error.result = result
    return error


def _publish(result: ProvisionResult) -> None:
    for finding in result.findings:
        get_run_logger().info("%s %s: %s %s", finding.kind, finding.name, finding.state, finding.detail)
    create_table_artifact(key=ARTIFACT_KEY, table=[finding.row() for finding in result.findings])
