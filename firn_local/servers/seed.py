"""What a new stack holds before anybody used it: four secrets, and Snowflake's first objects, roles and user.

Names are those of the seed document (the course the project follows). Values are made fresh for each stack and exist
nowhere else than in its Secrets Manager.
"""

from __future__ import annotations

import json
import secrets
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from pydantic import SecretStr

from firn.errors import TerminalError
from firn.keys import private_key_der
from firn.secrets import SnowflakeSecret, read_secret
from firn.settings import Settings
from firn_local.admin import ACCOUNT, ADMIN_USER, ensure_key, new_private_key
from firn_local.home import ANALYSTS_LOGIN, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, Home
from firn_local.servers.schema_registry import registry_url

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

# The grants a data platform team would make with Terraform (infra/), and no more: the connector writes tables, the
# analyst reads them and builds models. The service user may take both roles: one machine has one person.
_SNOWFLAKE_SQL = """\
CREATE DATABASE IF NOT EXISTS STREAMING;
CREATE SCHEMA IF NOT EXISTS STREAMING.PUBLIC;
CREATE WAREHOUSE IF NOT EXISTS INGEST_WH WAREHOUSE_SIZE = XSMALL AUTO_SUSPEND = 60 AUTO_RESUME = TRUE;

CREATE ROLE IF NOT EXISTS STREAMING_DB_WRITER;
CREATE ROLE IF NOT EXISTS SVC_KAFKA_CONNECTOR;
CREATE ROLE IF NOT EXISTS ANALYTICS_DEVELOPER;

GRANT USAGE ON DATABASE STREAMING TO ROLE STREAMING_DB_WRITER;
GRANT USAGE, CREATE TABLE, CREATE STAGE ON SCHEMA STREAMING.PUBLIC TO ROLE STREAMING_DB_WRITER;
-- For pipes that a person makes with `firn sql --as-sink` (docs/tables.md): a sink makes none.
GRANT CREATE PIPE ON SCHEMA STREAMING.PUBLIC TO ROLE STREAMING_DB_WRITER;
-- For exports: streams on tables, tasks that move them into outboxes (docs/export.md), and models as their sources.
GRANT CREATE STREAM, CREATE TASK ON SCHEMA STREAMING.PUBLIC TO ROLE STREAMING_DB_WRITER;
GRANT SELECT ON FUTURE TABLES IN SCHEMA STREAMING.PUBLIC TO ROLE STREAMING_DB_WRITER;
GRANT ROLE STREAMING_DB_WRITER TO ROLE SVC_KAFKA_CONNECTOR;
GRANT USAGE ON WAREHOUSE INGEST_WH TO ROLE SVC_KAFKA_CONNECTOR;

GRANT USAGE, CREATE SCHEMA ON DATABASE STREAMING TO ROLE ANALYTICS_DEVELOPER;
GRANT USAGE, CREATE TABLE, CREATE VIEW ON SCHEMA STREAMING.PUBLIC TO ROLE ANALYTICS_DEVELOPER;
GRANT SELECT ON FUTURE TABLES IN SCHEMA STREAMING.PUBLIC TO ROLE ANALYTICS_DEVELOPER;
GRANT SELECT ON FUTURE VIEWS IN SCHEMA STREAMING.PUBLIC TO ROLE ANALYTICS_DEVELOPER;
GRANT USAGE ON WAREHOUSE INGEST_WH TO ROLE ANALYTICS_DEVELOPER;

-- For a person who looks at usage with `firn sql`: a sink reads none.
GRANT IMPORTED PRIVILEGES ON DATABASE SNOWFLAKE TO ROLE SVC_KAFKA_CONNECTOR;
GRANT IMPORTED PRIVILEGES ON DATABASE SNOWFLAKE TO ROLE ANALYTICS_DEVELOPER;

CREATE USER IF NOT EXISTS SVC_KAFKA_CONNECTOR TYPE = SERVICE RSA_PUBLIC_KEY = '{public_key}'
    DEFAULT_ROLE = SVC_KAFKA_CONNECTOR DEFAULT_WAREHOUSE = INGEST_WH;
GRANT ROLE SVC_KAFKA_CONNECTOR TO USER SVC_KAFKA_CONNECTOR;
GRANT ROLE ANALYTICS_DEVELOPER TO USER SVC_KAFKA_CONNECTOR;

CREATE USER IF NOT EXISTS ANALYTICS_DEVELOPER TYPE = SERVICE RSA_PUBLIC_KEY = '{analysts_key}'
    DEFAULT_ROLE = ANALYTICS_DEVELOPER DEFAULT_WAREHOUSE = INGEST_WH;
GRANT ROLE ANALYTICS_DEVELOPER TO USER ANALYTICS_DEVELOPER;

CREATE USER IF NOT EXISTS {admin} TYPE = PERSON DEFAULT_ROLE = ACCOUNTADMIN DEFAULT_WAREHOUSE = INGEST_WH;
ALTER USER {admin} SET RSA_PUBLIC_KEY = '{admin_key}';
GRANT ROLE ACCOUNTADMIN TO USER {admin};
"""


def seed_secrets(home: Home) -> None:
    """Make the secrets that are absent and point those that exist to today's ports; nothing else in them is touched.

    Raises TerminalError when Secrets Manager refuses, for instance because a secret is scheduled for deletion.
    """
    from botocore.exceptions import ClientError

    settings, client = home.settings(), _client(home)
    wanted: list[tuple[str, dict[str, str], Callable[[], dict[str, str]]]] = [
        (settings.kafka_secret_id, {"bootstrap_servers": home.address("kafka")}, _api_key),
        (settings.registry_secret_id, {"url": registry_url(home)}, _api_key),
        (settings.snowflake_secret_id, {"url": home.url("snowflake")}, lambda: _login("SVC_KAFKA_CONNECTOR")),
        (ANALYSTS_LOGIN, {"url": home.url("snowflake")}, lambda: _login("ANALYTICS_DEVELOPER")),
    ]
    for secret_id, endpoint, fresh in wanted:
        try:
            _store(client, secret_id, endpoint, fresh)
        except ClientError as error:
            raise TerminalError(
                f"The stack cannot keep a secret: {error.response.get('Error', {}).get('Message', error)}",
                where=f"secret {secret_id} at {home.address('secrets-manager')}",
                next_step="Restore the secret, or start over with `firn down --purge` and `firn up`.",
            ) from error


def snowflake_sql(home: Home) -> str:
    """Snowflake's first statements, with the public halves of the users' keys. Holds no credential."""
    settings = home.settings()
    service, analysts = (_public_key(settings, name) for name in (settings.snowflake_secret_id, ANALYSTS_LOGIN))
    return first_statements(service, analysts, public_key(ensure_key(home)))


def _public_key(settings: Settings, secret_id: str) -> str:
    secret = read_secret(settings, secret_id, SnowflakeSecret)
    return public_key(secret.private_key, secret.private_key_passphrase)


def first_statements(service_key: str, analysts_key: str, admin_key: str) -> str:
    """Database, schema, warehouse, roles, grants, and the users with these public keys."""
    return _SNOWFLAKE_SQL.format(
        public_key=service_key, analysts_key=analysts_key, admin=ADMIN_USER, admin_key=admin_key
    )


def public_key(private_key: SecretStr, passphrase: SecretStr | None = None) -> str:
    """What ALTER USER ... SET RSA_PUBLIC_KEY takes: the public half in base64, without PEM headers."""
    key = serialization.load_der_private_key(private_key_der(private_key, passphrase), None).public_key()
    encoded = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return b64encode(encoded).decode()


def _store(
    client: SecretsManagerClient, secret_id: str, endpoint: dict[str, str], fresh: Callable[[], dict[str, str]]
) -> None:
    try:
        text = client.get_secret_value(SecretId=secret_id).get("SecretString", "")
    except client.exceptions.ResourceNotFoundException:
        client.create_secret(Name=secret_id, SecretString=json.dumps(endpoint | fresh()))
        return
    try:
        current: Any = json.loads(text)
    except ValueError:
        return  # somebody broke it, perhaps on purpose; whoever reads it next says so
    if isinstance(current, dict) and current != current | endpoint:
        client.put_secret_value(SecretId=secret_id, SecretString=json.dumps(current | endpoint))


def _api_key() -> dict[str, str]:
    # Shaped like Confluent's: 16 capitals and digits, and a long secret.
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    return {"api_key": "".join(secrets.choice(alphabet) for _ in range(16)), "api_secret": secrets.token_urlsafe(48)}


def _login(user: str) -> dict[str, str]:
    """A user whose role has the same name."""
    return {"account": ACCOUNT, "user": user, "role": user, "warehouse": "INGEST_WH", "private_key": new_private_key()}


def _client(home: Home) -> SecretsManagerClient:
    import boto3
    from botocore.config import Config

    # A proxy of the environment is for the outside world, never for loopback.
    config = Config(connect_timeout=5, read_timeout=10, proxies={}, retries={"max_attempts": 1})
    return boto3.session.Session().client(
        "secretsmanager",
        region_name=home.settings().aws_region,
        endpoint_url=home.url("secrets-manager"),
        aws_access_key_id=AWS_ACCESS_KEY_ID,
        aws_secret_access_key=AWS_SECRET_ACCESS_KEY,
        config=config,
    )
