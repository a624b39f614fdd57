"""Small texts from S3. Not for data: a sink's files go to Snowflake's stages by Snowflake's driver."""

from __future__ import annotations

from urllib.parse import urlsplit

from firn.errors import AuthenticationError, ConfigError, FirnError, PrivilegeError, TransientError
from firn.retry import with_retries
from firn.secrets import aws_client
from firn.settings import Settings

SCHEME = "s3://"
_BYTES = 1_000_000
_ABSENT, _REFUSED = {"NoSuchKey", "NoSuchBucket", "404"}, {"AccessDenied", "403"}
_LOGIN = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"}


def read_text(settings: Settings, address: str) -> str:
    """The UTF-8 text at s3://bucket/key, a megabyte at most, with the endpoint and login that the settings give AWS.

    Raises ConfigError (no such address, no text), AuthenticationError, PrivilegeError or TransientError.
    """
    return with_retries(settings.retry_deadline_seconds, _fetch, settings, address)


def _fetch(settings: Settings, address: str) -> str:
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

    parts = urlsplit(address)
    bucket, key = parts.netloc, parts.path.lstrip("/")
    if not bucket or not key:
        raise ConfigError("The address names no object.", where=address, next_step="Write s3://<bucket>/<key>.")
    try:
        answer = aws_client(settings, "s3").get_object(Bucket=bucket, Key=key)
        data = answer["Body"].read(_BYTES + 1)
    except (NoCredentialsError, PartialCredentialsError):
        raise AuthenticationError(
            "No AWS credentials were found.", where=address, next_step="Give this process AWS credentials."
        ) from None
    except ClientError as error:
        raise _refusal(str(error.response.get("Error", {}).get("Code", "")), address) from None
    except (BotoCoreError, OSError) as error:
        raise TransientError(
            f"S3 does not answer ({type(error).__name__}).", where=address, next_step="Check the network."
        ) from None
    try:
        return _limited(data, address).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError("The object is not UTF-8 text.", where=address, next_step="Store it as UTF-8.") from None


def _limited(data: bytes, address: str) -> bytes:
    if len(data) > _BYTES:
        raise ConfigError("The object has more than a megabyte.", where=address, next_step="Name another object.")
    return data


def _refusal(code: str, address: str) -> FirnError:
    if code in _ABSENT:
        return ConfigError("The object does not exist.", where=address, next_step="Check bucket and key.")
    if code in _REFUSED:
        return PrivilegeError("AWS refuses to read the object.", where=address, next_step="Allow s3:GetObject on it.")
    if code in _LOGIN:
        return AuthenticationError(f"AWS refuses the credentials ({code}).", where=address, next_step="Renew them.")
    return TransientError(f"S3 answered {code}.", where=address, next_step="Try again later.")
