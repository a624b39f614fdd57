"""How keys, values and headers are converted: from class names, input formats, converter options and transforms.

Of single message transforms only HoistField is followed, which wraps a whole key or value into one field; others are
refused by name. Not for converting records (`spark_jobs.sink.decode`).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import SecretStr

from firn.connector.check import Check
from firn.connector.config import ConverterConfig, HeaderFormat, Method, ProtobufOptions
from firn.connector.formats import CLASSES, INPUT_FORMATS, JSON_CONVERTER, SNOWFLAKE_CLASSES, SNOWFLAKE_JSON, Format
from firn.connector.parameters.connect import HEADER_CONVERTERS
from firn.registry.endpoint import RegistryConfig, without_login

Side = Literal["key", "value"]
_INPUT = {"key": "input.key.format", "value": "input.data.format"}
_DEFAULT = {"key": Format.STRING, "value": Format.AVRO}
_HEADERS = dict(zip(HEADER_CONVERTERS, (HeaderFormat.SIMPLE, HeaderFormat.STRING, HeaderFormat.BYTES), strict=True))
_PEM = (".pem", ".crt", ".cer", ".cert")
_IGNORES_DEFAULTS = {Format.AVRO, Format.JSON_SCHEMA}
_REGISTRY_FORMATS = {each for each in Format if each.in_registry}
_BESIDE_TOKEN = ("logical.cluster", "identity.pool.id")
_PROTOBUF = ("int.for.enums", "generate.index.for.unions", "wrapper.for.raw.primitives", "flatten.unions")


_TRANSFORMS = "org.apache.kafka.connect.transforms."
HOIST = {f"{_TRANSFORMS}HoistField$Key": "key", f"{_TRANSFORMS}HoistField$Value": "value"}


def convert(check: Check) -> tuple[ConverterConfig, ConverterConfig]:
    """The converters of values and keys; faults go into the check."""
    hoists = _hoisted(check)
    return _converter(check, "value", hoists["value"]), _converter(check, "key", hoists["key"])


def header_format(check: Check) -> HeaderFormat:
    """How header values are read."""
    return _HEADERS[check.get("header.converter")]


def format_of(check: Check, side: Side) -> Format:
    """The format that the file names for keys or values, or the default."""
    named = check.get(f"{side}.converter")
    envelope = check.has(f"{side}.converter.schemas.enable") and check.get(f"{side}.converter.schemas.enable")
    if named == JSON_CONVERTER:
        return Format.JSON_ENVELOPE if check.get(f"{side}.converter.schemas.enable") else Format.JSON
    if named:
        return CLASSES[named]
    given = check.get(_INPUT[side])
    if given == "JSON" and envelope:  # without the option, Confluent Cloud's JSON has no schema
        return Format.JSON_ENVELOPE
    return INPUT_FORMATS[given] if given else _DEFAULT[side]


def _converter(check: Check, side: Side, hoist: tuple[str, ...]) -> ConverterConfig:
    chosen = format_of(check, side)
    _contradiction(check, side, chosen)
    _with_method_and_tables(check, side, chosen, hoist)
    _idle_options(check, side, chosen)
    _wrappers(check, side)
    return ConverterConfig(
        format=chosen,
        registry=registry_of(check, side) if chosen.in_registry else None,
        json_null_is_tombstone=check.get(f"{side}.converter") != SNOWFLAKE_JSON,
        protobuf=ProtobufOptions(*(check.get(f"{side}.converter.{option}") for option in _PROTOBUF)),
        hoist=hoist,
        null_defaults=_null_defaults(check, side, chosen),
        flatten_singletons=_flatten_singletons(check, side),
    )


def _flatten_singletons(check: Check, side: Side) -> bool:
    """Whether a union of one type is that type; Snowflake's converters have no objects for unions."""
    return check.get(f"{side}.converter") in SNOWFLAKE_CLASSES or bool(
        check.get(f"{side}.converter.flatten.singleton.unions")
    )


def _null_defaults(check: Check, side: Side, chosen: Format) -> bool:
    """Whether a null becomes its field's default, as the options of the converter say; Snowflake's never do that."""
    if chosen is Format.JSON_ENVELOPE:
        return bool(check.get(f"{side}.converter.replace.null.with.default"))
    if chosen not in _IGNORES_DEFAULTS:
        return True
    named = check.get(f"{side}.converter")
    return named not in SNOWFLAKE_CLASSES and not check.get(f"{side}.converter.ignore.default.for.nullables")


def _contradiction(check: Check, side: Side, chosen: Format) -> None:
    named, given = check.get(f"{side}.converter"), check.get(_INPUT[side])
    if not named or not given:
        return
    if named == JSON_CONVERTER and given == "JSON":
        if not check.has(f"{side}.converter.schemas.enable"):
            check.fault(
                _INPUT[side],
                f"has no schema, and JsonConverter expects one: give {side}.converter.schemas.enable",
                ("true", "false"),
            )
    elif INPUT_FORMATS[given] is not chosen:
        allowed = tuple(name for name, meant in INPUT_FORMATS.items() if meant is chosen)
        check.fault(_INPUT[side], f"contradicts {side}.converter", allowed)


def _with_method_and_tables(check: Check, side: Side, chosen: Format, hoist: tuple[str, ...]) -> None:
    name = f"{side}.converter"
    if check.method is Method.SNOWPIPE_STREAMING and check.get(name) in SNOWFLAKE_CLASSES:
        check.fault(name, "is refused with SNOWPIPE_STREAMING, as officially: Snowflake's converters are for SNOWPIPE")
    typed = side == "value" and check.get("snowflake.enable.schematization")
    if typed and chosen in (Format.STRING, Format.BYTES) and not hoist:
        at = name if check.has(name) else _INPUT[side]
        problem = "has no fields, which snowflake.enable.schematization needs: HoistField puts the value into one"
        check.fault(at, problem)


def _idle_options(check: Check, side: Side, chosen: Format) -> None:
    """Warn of options that the chosen converter does not have."""
    prefix = f"{side}.converter."
    of_snowflake = check.get(f"{side}.converter") in SNOWFLAKE_CLASSES
    own = {
        **{f"{prefix}{option}": {Format.PROTOBUF} for option in _PROTOBUF},
        f"{prefix}schemas.enable": {Format.JSON, Format.JSON_ENVELOPE},
        f"{prefix}ignore.default.for.nullables": set() if of_snowflake else _IGNORES_DEFAULTS,
        f"{prefix}flatten.singleton.unions": set() if of_snowflake else {Format.AVRO},
        f"{prefix}replace.null.with.default": {Format.JSON_ENVELOPE},
        f"{prefix}schema.registry.url": _REGISTRY_FORMATS,
        f"{prefix}basic.auth.user.info": _REGISTRY_FORMATS,
    }
    for name, formats in own.items():
        if check.has(name) and chosen not in formats:
            check.warn(name, f"has no effect: the {side}'s converter ({chosen}) has no such option.")


def _wrappers(check: Check, side: Side) -> None:
    prefix = f"{side}.converter.wrapper.for."
    if check.get(f"{prefix}nullables") and not check.get(f"{prefix}raw.primitives"):
        problem = (
            "unwraps messages only inside a record, which Firn does not do: wrapper messages are their values or not"
        )
        check.fault(f"{prefix}nullables", f"{problem}; leave {prefix}raw.primitives out")


def registry_of(check: Check, side: Side) -> RegistryConfig | None:
    """The registry that the options of a converter name; None: that of the secret. Faults go into the check."""
    prefix = f"{side}.converter."
    name = next((n for n in (f"{prefix}schema.registry.url", "schema.registry.url") if check.has(n)), None)
    info_name, info = _first(check, prefix, "basic.auth.user.info", "schema.registry.basic.auth.user.info")
    token = check.get(f"{prefix}bearer.auth.token")
    if name is None:
        for login in filter(None, (info_name, f"{prefix}bearer.auth.token" if token else None)):
            check.fault(login, f"is given without {prefix}schema.registry.url")
        return None
    urls, in_url = _without_logins(check.get(name) or ())
    source_name, source = _first(
        check, prefix, "basic.auth.credentials.source", "schema.registry.basic.auth.credentials.source"
    )
    if source == "USER_INFO" and info_name is None:
        check.fault(f"{prefix}basic.auth.user.info", f"is required with {source_name}=USER_INFO")
    if source == "URL" and in_url is None and name not in check.unchecked:
        check.fault(name, f"holds no user and password, which {source_name}=URL requires")
    if info is not None and ":" not in info.get_secret_value():
        check.fault(str(info_name), "is not <user>:<password>")
    if token is not None and (info or in_url):
        check.fault(f"{prefix}bearer.auth.token", "is given beside a user and password: only one login is possible")
    return RegistryConfig(
        urls,
        in_url if source == "URL" else info or in_url,
        token,
        _ca_location(check, f"{prefix}schema.registry.ssl.truststore"),
        *(_beside_token(check, f"{prefix}bearer.auth.{option}", token) for option in _BESIDE_TOKEN),
    )


def _beside_token(check: Check, name: str, token: SecretStr | None) -> str | None:
    value: str | None = check.get(name)
    if value and token is None:
        check.warn(name, "has no effect without bearer.auth.token.")
    return value


def _ca_location(check: Check, prefix: str) -> str | None:
    location: str | None = check.get(f"{prefix}.location")
    if location and not check.has(f"{prefix}.type") and not location.endswith(_PEM):
        # Java's default kind is JKS.
        check.fault(f"{prefix}.location", f"must be a PEM file; give {prefix}.type=PEM if it is one", _PEM)
    return location


def _first(check: Check, prefix: str, *options: str) -> tuple[str | None, Any]:
    for option in options:
        if check.has(prefix + option):
            return prefix + option, check.get(prefix + option)
    return None, None


def _without_logins(urls: tuple[str, ...]) -> tuple[tuple[str, ...], SecretStr | None]:
    """The addresses without user and password, and these, as Confluent's clients take them from the first address."""
    parts = [(type(url), *without_login(url)) for url in urls]
    login = next((login for _, _, login in parts if login), None)
    return tuple(kind(bare) for kind, bare, _ in parts), login  # what came from a reference stays marked


def _hoisted(check: Check) -> dict[str, tuple[str, ...]]:
    """The fields of HoistField for key and value, the first transform's (the innermost) first."""
    fields: dict[str, list[str]] = {"key": [], "value": []}
    names = check.get("transforms") or ()
    if check.has("transforms") and check.given["transforms"].referenced:
        check.fault("transforms", "must not be a reference: its names are parts of other parameters' names")
        names = ()
    if check.get("predicates"):
        check.fault("predicates", "names a predicate, and predicates are not supported: leave it out")
    for name in names:
        side, field = _hoist(check, f"transforms.{name}")
        if side and field:
            fields[side].append(field)
    _unnamed(check, names)
    return {side: tuple(found) for side, found in fields.items()}


def _hoist(check: Check, prefix: str) -> tuple[str | None, str | None]:
    type_name, field_name = f"{prefix}.type", f"{prefix}.field"
    if not check.has(type_name):
        check.fault(type_name, "is required: transforms names it", tuple(HOIST))
        return None, None
    kind = check.given[type_name].value
    if kind is None:
        return None, None
    if kind not in HOIST:
        check.fault(type_name, "is a transform that is not supported; do this in dbt or before Kafka", tuple(HOIST))
        return None, None
    if not check.has(field_name):
        check.fault(field_name, "is required by HoistField")
        return None, None
    for name in check.given:
        if name.startswith(f"{prefix}.") and name not in (type_name, field_name):
            check.fault(name, "is not an option of HoistField that is supported")
    return HOIST[kind], check.given[field_name].value


def _unnamed(check: Check, names: tuple[str, ...]) -> None:
    for name in check.given:
        family, _, rest = name.partition(".")
        if family == "transforms" and rest and not any(rest.startswith(f"{known}.") for known in names):
            check.warn(name, "has no effect: transforms does not name it.")
        elif family == "predicates" and rest:
            check.warn(name, "has no effect: predicates are not supported.")
