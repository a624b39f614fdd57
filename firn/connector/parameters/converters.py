"""Converters of keys, values and headers, and the options of each. Not for what a class stands for (`formats`)."""

from __future__ import annotations

from dataclasses import replace

from firn.connector import readers as r
from firn.connector.formats import CLASSES, INPUT_FORMATS
from firn.connector.parameter import Parameter, group, honoured, no_effect, refused
from firn.connector.parameters.connect import HEADER_CONVERTERS

_WRITING = "it concerns writing; a sink only reads."
_BY_ID = "Firn finds a schema by the id in the record, not by subject."
_CACHE = "Firn caches every schema that it has met."
_TLS = "Firn's registry client takes PEM files: give schema.registry.ssl.truststore.location with a PEM file."
_LOGIN = "Firn's registry client logs in by USER_INFO, by URL or with a static token."
_REGISTRY_SECRET = "registry secret"  # noqa: S105 (where it comes from, not what it is)

CHOICE = group(
    "Converters",
    honoured("value.converter", r.class_name(CLASSES, "converter"), "Converter of record values."),
    honoured("key.converter", r.class_name(CLASSES, "converter"), "Converter of record keys."),
    honoured(
        "input.data.format",
        r.one_of(*INPUT_FORMATS),
        "Format of record values, as Confluent Cloud names it; instead of value.converter. Without both: AVRO.",
    ),
    honoured(
        "input.key.format",
        r.one_of(*INPUT_FORMATS),
        "Format of record keys, instead of key.converter. Without both: STRING.",
    ),
    honoured(
        "header.converter",
        r.class_name(dict.fromkeys(HEADER_CONVERTERS), "header converter"),
        "Converter of record headers.",
        HEADER_CONVERTERS[0],
    ),
    honoured(
        "schema.registry.url",
        r.URLS,
        "The registry of keys and values whose converter names none.",
        elsewhere=_REGISTRY_SECRET,
    ),
)

_REGISTRY = (
    honoured(
        "schema.registry.url",
        r.URLS,
        "Addresses of the schema registry, separated by commas: tried in this order.",
        elsewhere=_REGISTRY_SECRET,
    ),
    honoured(
        "basic.auth.credentials.source",
        r.one_of("USER_INFO", "URL"),
        "Where user and password of the registry are: in basic.auth.user.info, or in the address.",
    ),
    honoured("basic.auth.user.info", r.TEXT, "<user>:<password> of the registry.", secret=True),
    honoured(
        "schema.registry.basic.auth.user.info",
        r.TEXT,
        "The older name of basic.auth.user.info.",
        secret=True,
    ),
    honoured(
        "schema.registry.basic.auth.credentials.source",
        r.one_of("USER_INFO", "URL"),
        "The older name of basic.auth.credentials.source.",
    ),
    honoured("bearer.auth.credentials.source", r.only("STATIC_TOKEN", _LOGIN), "Where the token is."),
    honoured("bearer.auth.token", r.TEXT, "Token of the registry.", secret=True),
    honoured(
        "bearer.auth.logical.cluster",
        r.TEXT,
        "Confluent Cloud: id of the registry (lsrc-...) that goes with the token.",
    ),
    honoured("bearer.auth.identity.pool.id", r.TEXT, "Confluent Cloud: identity pool that goes with the token."),
    honoured("schema.registry.ssl.truststore.location", r.TEXT, "PEM file of the registry's CA."),
    honoured("schema.registry.ssl.truststore.type", r.only("PEM", _TLS), "Kind of that file."),
    refused("schema.registry.ssl.truststore.password", r.TEXT, "Password of that file.", _TLS, secret=True),
    refused("schema.registry.ssl.keystore.location", r.TEXT, "Client certificate.", _TLS),
    refused("schema.registry.ssl.keystore.password", r.TEXT, "Its password.", _TLS, secret=True),
    refused("schema.registry.ssl.key.password", r.TEXT, "Password of its key.", _TLS, secret=True),
    refused("schema.registry.ssl.keystore.type", r.TEXT, "Kind of that file.", _TLS),
    refused("proxy.host", r.TEXT, "Proxy of the registry.", "Give jvm.proxy.host, which the registry client uses too."),
    refused("proxy.port", r.TEXT, "Its port.", "Give jvm.proxy.port, which the registry client uses too."),
    *(
        no_effect(name, r.TEXT, doc, _BY_ID)
        for name, doc in (
            ("key.subject.name.strategy", "How the subject of keys is named."),
            ("value.subject.name.strategy", "How the subject of values is named."),
            ("subject.name.strategy", "How subjects are named."),
            ("reference.subject.name.strategy", "How subjects of references are named."),
            ("key.schema.id.deserializer", "Where the schema id of keys is looked for."),
            ("value.schema.id.deserializer", "Where the schema id of values is looked for."),
        )
    ),
    *(
        no_effect(name, r.BOOLEAN, doc, _WRITING)
        for name, doc in (
            ("auto.register.schemas", "Whether schemas are registered."),
            ("normalize.schemas", "Whether schemas are normalised before that."),
            ("use.schema.guid", "Whether a schema's guid is written."),
            ("latest.compatibility.strict", "Whether the newest schema must be compatible."),
        )
    ),
    honoured(
        "use.latest.version",
        r.only("false", "a record is read with the schema that it was written with"),
        "Whether records are read with the subject's newest schema.",
        "false",
    ),
    no_effect("schemas.cache.config", r.whole(0), "Schemas that are cached.", _CACHE, "1000"),
    no_effect("schemas.cache.size", r.whole(0), "Schemas that are cached.", _CACHE, "1000"),
    no_effect("max.schemas.per.subject", r.whole(1), "Schemas of a subject that are cached.", _CACHE, "1000"),
    no_effect(
        "break.on.schema.registry.error",
        r.BOOLEAN,
        "SnowflakeAvroConverter: whether an error of the registry stops the connector.",
        "Firn always retries and then stops; only a schema id that the registry does not know makes a bad record.",
        "false",
    ),
)

_AVRO = (
    honoured(
        "enhanced.avro.schema.support",
        r.only("false", "members of unions have their short names; leave it out if no union holds several records"),
        "Avro: whether members of unions are named in full.",
        "false",
    ),
    no_effect("connect.meta.data", r.BOOLEAN, "Whether schemas carry Connect's own data.", _WRITING, "true"),
    no_effect("allow.optional.map.keys", r.BOOLEAN, "Whether keys of maps may be null.", _WRITING, "false"),
    honoured(
        "ignore.default.for.nullables",
        r.BOOLEAN,
        "Avro and JSON Schema: whether a null in a nullable field stays null, even if its type has a default"
        " (Avro: connect.default).",
        "false",
    ),
    no_effect("avro.use.logical.type.converters", r.BOOLEAN, "Avro's Java classes.", _WRITING, "false"),
    no_effect("avro.remove.java.properties", r.BOOLEAN, "Avro's Java properties.", _WRITING, "false"),
    no_effect("specific.avro.reader", r.BOOLEAN, "Generated Java classes.", "there are no Java classes.", "false"),
    honoured(
        "discard.type.doc.default",
        r.only("false", "defaults of a schema count"),
        "Whether defaults are dropped.",
        "false",
    ),
    refused(
        "reader.schema",
        r.TEXT,
        "SnowflakeAvroConverter: a schema to read with.",
        "Records are read with the schema that they were written with.",
    ),
)

_JSON = (
    honoured(
        "schemas.enable",
        r.BOOLEAN,
        'JsonConverter: whether a record is {"schema": ..., "payload": ...}. Other converters have no such option.',
        "true",
    ),
    no_effect("decimal.format", r.one_of("BASE64", "NUMERIC"), "How decimals are written.", _WRITING, "BASE64"),
    honoured(
        "replace.null.with.default",
        r.BOOLEAN,
        "JsonConverter: whether a null becomes the default of its field; if not, it stays null or, where the field"
        " is not optional, makes the record bad.",
        "true",
    ),
    honoured("encoding", r.only("UTF-8", "text is UTF-8", "UTF8"), "Encoding of StringConverter.", "UTF-8"),
    honoured(
        "json.fail.invalid.schema",
        r.only("false", "records are not validated against their JSON Schema"),
        "JSON Schema: whether records that break their schema are refused.",
        "false",
    ),
    no_effect("json.fail.unknown.properties", r.BOOLEAN, "Unknown properties of Java classes.", _WRITING, "true"),
    no_effect("object.additional.properties", r.BOOLEAN, "JSON Schema: additionalProperties.", _WRITING, "true"),
    no_effect(
        "use.optional.for.nonrequired",
        r.BOOLEAN,
        "JSON Schema: whether fields that are not required may be absent.",
        "fields that are not required may always be absent.",
        "false",
    ),
    honoured(
        "generalized.sum.type.support",
        r.only("false", "unions keep Connect's own names"),
        "Whether unions have the same names in every format.",
        "false",
    ),
    honoured(
        "flatten.singleton.unions",
        r.BOOLEAN,
        "Avro: a union of one type is that type; otherwise an object with one member.",
        "true",
    ),
)

_PROTOBUF = (
    honoured("int.for.enums", r.BOOLEAN, "Protobuf: enums as numbers.", "false"),
    honoured("generate.index.for.unions", r.BOOLEAN, "Protobuf: names of oneofs end in their index.", "true"),
    honoured("wrapper.for.raw.primitives", r.BOOLEAN, "Protobuf: a wrapper message is its value.", "true"),
    honoured("flatten.unions", r.BOOLEAN, "Protobuf: members of a oneof stand beside the other fields.", "false"),
    no_effect(
        "optional.for.nullables",
        r.BOOLEAN,
        "Protobuf: whether `optional` fields are nullable.",
        "optional fields that are not set are null in any case.",
        "false",
    ),
    honoured(
        "optional.for.proto2",
        r.only("true", "optional fields of proto2 that are not set are null"),
        "Protobuf: optional fields of proto2 may be null.",
        "true",
    ),
    no_effect(
        "wrapper.for.nullables",
        r.BOOLEAN,
        "Protobuf: wrapper messages are nullable values.",
        "wrapper.for.raw.primitives says whether wrapper messages are their values, wherever they stand.",
        "false",
    ),
    no_effect("generate.struct.for.nulls", r.BOOLEAN, "Protobuf: structs for nulls.", _WRITING, "false"),
    no_effect("enhanced.protobuf.schema.support", r.BOOLEAN, "Protobuf: names of packages.", _WRITING, "false"),
    no_effect("scrub.invalid.names", r.BOOLEAN, "Names that a format does not allow.", _WRITING, "false"),
)

OPTIONS = (*_REGISTRY, *_AVRO, *_JSON, *_PROTOBUF)


def _of(side: str) -> tuple[Parameter, ...]:
    return tuple(replace(option, name=f"{side}.converter.{option.name}") for option in OPTIONS)


VALUE_OPTIONS = group("Options of the value's converter", *_of("value"))
KEY_OPTIONS = group("Options of the key's converter", *_of("key"))
