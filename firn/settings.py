"""Typed settings: where the outside world is. Not for what a sink does (that is its connector configuration).

Read from, first wins: environment variables `FIRN_*`, a `.env` file in the working directory, and `stack.env` in
FIRN_HOME, which the embedded stack writes while it is up. Credentials are not settings: they come from Secrets Manager.
"""

from __future__ import annotations

import os
import shlex
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PROJECT_ROOT = Path(__file__).resolve().parent.parent

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Compatibility = Literal[
    "NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"
]


class Settings(BaseSettings):
    """Endpoints and defaults of one environment. Every field is the environment variable FIRN_<NAME>."""

    model_config = SettingsConfigDict(env_prefix="FIRN_", extra="ignore", frozen=True)

    home: Path = Field(PROJECT_ROOT / ".local", description="Where state of this checkout lives (logs, scratch files).")

    aws_region: str = Field("eu-west-2", description="Region of Secrets Manager.")
    aws_endpoint_url: str | None = Field(None, description="Secrets Manager endpoint; unset means AWS itself.")
    aws_access_key_id: SecretStr | None = Field(None, description="Unset means the usual AWS credential chain.")
    aws_secret_access_key: SecretStr | None = Field(None, description="Unset means the usual AWS credential chain.")

    kafka_secret_id: str = Field(
        "confluent/kafka-cluster", description="Secret {bootstrap_servers, api_key, api_secret}."
    )
    registry_secret_id: str = Field("confluent/schema-registry", description="Secret {url, api_key, api_secret}.")
    snowflake_secret_id: str = Field(
        "snowflake/svc-kafka-connector", description="Secret {account, user, role, private_key, ...}."
    )
    dbt_secret_id: str | None = Field(
        None, description="Secret of the login of `firn transform`, in the same form; unset means the sinks' login."
    )
    sql_secret_id: str | None = Field(
        None, description="Secret of the login of `firn sql`, in the same form; unset means the sinks' login."
    )

    kafka_security_protocol: SecurityProtocol = Field("SASL_SSL", description="How clients speak to the brokers.")
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "PLAIN", description="SASL mechanism for api_key and api_secret."
    )
    kafka_ssl_ca_location: Path | None = Field(None, description="PEM of the CA; unset means the system's.")

    topic: str = Field("order-events", description="Topic of the sample orders.")
    topic_partitions: int = Field(3, ge=1, description="Partitions of a topic that is made.")
    topic_replication_factor: int = Field(-1, description="Replicas of a topic that is made; -1: the broker's default.")
    topic_retention_ms: int = Field(604_800_000, description="retention.ms of a topic that is made.")
    topic_cleanup_policy: Literal["delete", "compact", "compact,delete"] = Field(
        "delete", description="cleanup.policy of a topic that is made."
    )
    registry_compatibility: Compatibility = Field("BACKWARD", description="Compatibility mode of a subject.")

    snowflake_url: str | None = Field(None, description="Overrides the host that `account` implies.")
    snowflake_streaming_url: str | None = Field(
        None, description="Where Snowpipe Streaming is, https only; unset means the host that `account` implies."
    )
    snowflake_ca_file: Path | None = Field(
        None, description="PEM of every CA that the streaming client trusts; unset means the system's."
    )
    snowflake_database: str = Field("STREAMING", description="Database of the tables.")
    snowflake_schema: str = Field("PUBLIC", description="Schema of the tables.")
    dbt_schema: str | None = Field(None, description="Schema of the dbt models; unset means that of the tables.")
    snowflake_warehouse: str = Field("INGEST_WH", description="Warehouse for COPY and queries.")

    prefect_api_url: str | None = Field(None, description="Prefect API; unset means Prefect's own configuration.")

    spark_master: str = Field("local[*]", description="Spark master: local[*], spark://..., yarn, k8s://...")
    spark_conf: Annotated[dict[str, str], NoDecode] = Field(
        {},
        description="More of Spark's configuration, as name=value pairs between spaces; what a sink depends on stays "
        "as it is, Java options are added. Never a credential.",
    )
    spark_python: str | None = Field(
        None, description="Python of the executors, as they see it; unset means the driver's own."
    )
    spark_driver_memory: str = Field("512m", description="Heap of the Spark driver, whose JVM only schedules.")

    retry_deadline_seconds: float = Field(
        60.0, gt=0, description="How long a command or a single call retries a transient fault."
    )
    sink_patience_seconds: float = Field(
        300.0,
        gt=0,
        description="How long a sink goes on trying without any progress before it ends with exit code 4.",
    )

    @field_validator("spark_conf", mode="before")
    @classmethod
    def _pairs(cls, given: object) -> object:
        """`a.b=1 c.d="x y"` as a mapping; quotes are those of a shell."""
        if not isinstance(given, str):
            return given
        pairs = [pair.partition("=") for pair in shlex.split(given)]
        if wrong := [name for name, sign, _ in pairs if not sign or not name.startswith("spark.")]:
            raise ValueError(f"not spark.<name>=<value>: {', '.join(wrong)}")
        return {name: value for name, _, value in pairs}


@lru_cache
def load_settings() -> Settings:
    """The settings of this process. Raises pydantic's ValidationError, which names variable and value."""
    home = Path(os.environ.get("FIRN_HOME", PROJECT_ROOT / ".local"))
    return Settings(_env_file=(home / "stack.env", ".env"))  # type: ignore[call-arg]
