"""Credentials, read from AWS Secrets Manager and kept masked. Not for any other kind of setting.

Each secret is one JSON object. `SecretStr` keeps values out of logs, tracebacks and reprs; a value is unwrapped
only where a client is made. botocore is imported where AWS is asked: that takes the better part of a second.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from firn.errors import AuthenticationError, ConfigError, PrivilegeError, TransientError
from firn.retry import with_retries
from firn.settings import Settings

if TYPE_CHECKING:
    from botocore.exceptions import ClientError
    from botocore.loaders import Loader


class _Secret(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class KafkaSecret(_Secret):
    """How clients reach and enter the Kafka cluster."""

    bootstrap_servers: str
    api_key: SecretStr
    api_secret: SecretStr


class RegistrySecret(_Secret):
    """How clients reach and enter the schema registry."""

    url: str
    api_key: SecretStr
    api_secret: SecretStr


class SnowflakeSecret(_Secret):
    """The service user: key-pair login with a PEM private key (see `firn.keys` for its text forms)."""

    account: str
    user: str
    role: str
    private_key: SecretStr
    private_key_passphrase: SecretStr | None = None
    url: str | None = None
    warehouse: str | None = None


S = TypeVar("S", bound=_Secret)

_REFUSED = {"UnrecognizedClientException", "InvalidClientTokenId", "ExpiredTokenException"}


def read_secret(settings: Settings, secret_id: str, kind: type[S]) -> S:
    """Read one secret and check its shape; transient faults are retried until the settings' deadline.

    Raises ConfigError (absent or malformed, naming the keys at fault), AuthenticationError, PrivilegeError, or
    TransientError. No message carries a value.
    """
    fields = _fields(settings, secret_id, _keys(kind))
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        faults = ", ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ConfigError(
            f"The secret is malformed ({faults}).",
            where=_place(settings, secret_id),
            next_step=f"Store it as JSON with {_keys(kind)}.",
        ) from None


def read_secret_key(settings: Settings, secret_id: str, key: str) -> SecretStr:
    """One key of any secret, which is a JSON object; numbers and booleans as JSON writes them.

    Raises as `read_secret` does; ConfigError where the key is absent or holds no single value.
    """
    fields = _fields(settings, secret_id, key)
    value = fields.get(key)
    if value is None or isinstance(value, dict | list):
        raise ConfigError(
            f"The secret has no single value under the key {key!r}.",
            where=_place(settings, secret_id),
            next_step=f"Add {key} to the secret.",
        )
    return SecretStr(value if isinstance(value, str) else json.dumps(value))


def secret_reader(settings: Settings) -> Callable[[str, str], SecretStr]:
    """`read_secret_key` with these settings: what resolves the references of a connector file."""
    return partial(read_secret_key, settings)


def _fields(settings: Settings, secret_id: str, keys: str) -> dict[str, Any]:
    """The JSON object that a secret is; `keys` says what it should hold."""
    text = with_retries(settings.retry_deadline_seconds, _fetch, settings, secret_id)
    try:
        fields: Any = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        where = _place(settings, secret_id)
        raise ConfigError("The secret is not a JSON object.", where=where, next_step=f"Store it as JSON with {keys}.")
    return fields


def _place(settings: Settings, secret_id: str) -> str:
    return f"secret {secret_id} in Secrets Manager, region {settings.aws_region}"


def _keys(kind: type[_Secret]) -> str:
    return "{" + ", ".join(name + ("" if f.is_required() else "?") for name, f in kind.model_fields.items()) + "}"


def _fetch(settings: Settings, secret_id: str) -> str:
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

    where = _place(settings, secret_id)
    endpoint = settings.aws_endpoint_url or "the AWS endpoint of the region"
    try:
        return str(aws_client(settings, "secretsmanager").get_secret_value(SecretId=secret_id)["SecretString"])
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise AuthenticationError(
            "No AWS credentials were found.",
            where=where,
            next_step="Run `firn up` for the local stack, or give this process AWS credentials (profile, role, "
            "AWS_ACCESS_KEY_ID).",
        ) from error
    except ClientError as error:
        raise _refused(error, where) from error
    except KeyError as error:
        raise ConfigError(
            "The secret holds binary data, not text.", where=where, next_step="Store it as SecretString."
        ) from error
    except BotoCoreError as error:
        raise TransientError(
            f"Secrets Manager does not answer ({type(error).__name__}).",
            where=f"{where}, endpoint {endpoint}",
            next_step="Check the network and FIRN_AWS_ENDPOINT_URL; for the local stack see `firn status`.",
        ) from error


def _refused(error: ClientError, where: str) -> Exception:
    code = str(error.response.get("Error", {}).get("Code", ""))
    if code == "ResourceNotFoundException":
        return ConfigError(
            "The secret does not exist.",
            where=where,
            next_step="Create it, or name another with FIRN_KAFKA_SECRET_ID, FIRN_REGISTRY_SECRET_ID or "
            "FIRN_SNOWFLAKE_SECRET_ID.",
        )
    if code == "AccessDeniedException":
        return PrivilegeError(
            "AWS refuses to read the secret.", where=where, next_step="Allow secretsmanager:GetSecretValue on it."
        )
    if code in _REFUSED:
        return AuthenticationError(f"AWS refuses the credentials ({code}).", where=where, next_step="Renew them.")
    return TransientError(f"Secrets Manager answered {code}.", where=where, next_step="Try again later.")


@cache
def _loader() -> Loader:
    """What AWS's services look like: megabytes of JSON, which every session would otherwise read for itself."""
    from botocore.loaders import create_loader

    return create_loader()


def aws_client(settings: Settings, service: str) -> Any:
    """A client of one of AWS's services, with the endpoint and login of the settings."""
    from botocore.config import Config
    from botocore.session import Session

    def unwrap(value: SecretStr | None) -> str | None:
        return value.get_secret_value() if value else None

    session = Session()  # a new one finds the AWS credentials of now
    session.register_component("data_loader", _loader())
    return session.create_client(
        service,
        region_name=settings.aws_region,
        endpoint_url=settings.aws_endpoint_url,
        aws_access_key_id=unwrap(settings.aws_access_key_id),
        aws_secret_access_key=unwrap(settings.aws_secret_access_key),
        config=Config(connect_timeout=5, read_timeout=10, retries={"max_attempts": 1}),
    )
