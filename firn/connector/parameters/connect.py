"""Kafka Connect's own parameters: name, topics, tasks, transforms, errors."""

from __future__ import annotations

from firn.connector import readers as r
from firn.connector.parameter import group, honoured, no_effect

CLASSES = (
    "com.snowflake.kafka.connector.SnowflakeSinkConnector",
    "com.snowflake.kafka.connector.SnowflakeStreamingSinkConnector",
    "SnowflakeSink",  # Confluent Cloud's name
)
STREAMING_CLASS = CLASSES[1]
HEADER_CONVERTERS = (
    "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    "org.apache.kafka.connect.storage.StringConverter",
    "org.apache.kafka.connect.converters.ByteArrayConverter",
)
_RESTARTS = (
    "Firn retries every transient fault itself until FIRN_SINK_PATIENCE_SECONDS pass without progress, and Prefect "
    "restarts a sink."
)

CONNECT = group(
    "Connector and topics",
    honoured(
        "name",
        r.NAME,
        "Name of the sink: part of its stage paths and its rows in the ledger.",
        required=True,
        empty=False,
    ),
    honoured(
        "connector.class",
        r.class_name(dict.fromkeys(CLASSES), "class of the connector"),
        "The class of the official connector. SnowflakeStreamingSinkConnector (v4) implies SNOWPIPE_STREAMING; the "
        "others change nothing.",
        CLASSES[0],
    ),
    honoured("topics", r.TOPICS, "Topics, separated by commas. Exactly one of `topics` and `topics.regex`."),
    honoured(
        "topics.regex",
        r.REGEX,
        "Topics by regular expression over the whole name, in Java's dialect. Topics that match later are picked up "
        "from their beginning (`firn.topics.refresh.seconds`).",
    ),
    honoured(
        "tasks.max",
        r.whole(1),
        "Partitions that are worked on at a time, at most; absent: all of Spark's cores.",
    ),
    no_effect(
        "tasks.max.enforce",
        r.BOOLEAN,
        "Whether Connect refuses more tasks than tasks.max.",
        "Firn starts no tasks beyond tasks.max in any case.",
        "true",
    ),
    honoured(
        "transforms",
        r.LIST,
        "Names of single message transforms, in order. Only HoistField: others are refused by name (see below).",
    ),
    honoured("predicates", r.LIST, "Names of predicates. None can be used: any name is refused."),
    no_effect(
        "config.action.reload",
        r.one_of("none", "restart"),
        "What Connect does when a referenced secret changes.",
        "references are resolved at start, and again when a login is refused: docs/credentials.md.",
        "restart",
    ),
)

ERRORS = group(
    "Errors",
    honoured(
        "errors.tolerance",
        r.one_of("none", "all"),
        "`none`: the sink stops in front of a record that cannot be converted. `all`: it goes on without it.",
        "none",
    ),
    honoured(
        "errors.deadletterqueue.topic.name",
        r.TOPIC,
        "Topic for records that cannot be converted; needs errors.tolerance=all. `${connector}` is the sink's name.",
        "",
    ),
    honoured(
        "errors.deadletterqueue.topic.replication.factor",
        r.whole(-1, 32767),
        "Replicas of a dead-letter topic that is made; -1: the broker's default.",
        "3",
    ),
    honoured(
        "errors.deadletterqueue.context.headers.enable",
        r.BOOLEAN,
        "Whether a dead letter carries headers with topic, partition, offset and error.",
        "false",
    ),
    honoured(
        "errors.log.enable",
        r.BOOLEAN,
        "Log records that cannot be converted one by one: each that the sink stops at, the first ten of a partition "
        "and batch that it leaves out.",
        "false",
    ),
    honoured("errors.log.include.messages", r.BOOLEAN, "Show topic, partition, offset and error in that log.", "false"),
    no_effect("errors.retry.timeout", r.whole(-1), "Milliseconds that Connect retries an operation.", _RESTARTS, "0"),
    no_effect(
        "errors.retry.delay.max.ms",
        r.whole(1),
        "Most milliseconds between Connect's attempts.",
        _RESTARTS,
        "60000",
    ),
    no_effect(
        "enable.task.fail.on.authorization.errors",
        r.BOOLEAN,
        "Whether a task fails when Snowflake refuses its login or its role.",
        "Firn always stops and says what was refused.",
        "false",
    ),
)
