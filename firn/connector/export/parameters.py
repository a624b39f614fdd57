"""All parameters of an export by name: the table that checks, effective values and the documentation come from.

Names are those of Confluent's, Debezium's and the JDBC source connector where they have one; the others begin with
`firn.export.`. Those of one source (`SOURCE_PARAMETERS`) may stand alone in a file of one source; in a file of several
they stand behind `firn.export.sources.<source>.`, and alone they are the default of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from firn.connector import readers as r
from firn.connector.export import readers as x
from firn.connector.parameter import Parameter, group, honoured, no_effect, refused
from firn.connector.parameters import PARAMETERS as OF_SINKS
from firn.connector.parameters import snowflake

CLASSES = (
    "firn.SnowflakeExport",
    "io.confluent.connect.snowflake.SnowflakeSourceConnector",
)
MODES = ("stream", "tables", "incrementing", "timestamp", "timestamp+incrementing", "cursor", "query", "compare")
FORMATS = ("AVRO", "JSON", "JSON_SR")
AVRO, JSON_SR = "io.confluent.connect.avro.AvroConverter", "io.confluent.connect.json.JsonSchemaConverter"
JSON, STRING = "org.apache.kafka.connect.json.JsonConverter", "org.apache.kafka.connect.storage.StringConverter"
_TASKS = "Firn retries transient faults itself, and Prefect restarts an export."

CONNECT = group(
    "Connector",
    honoured(
        "name",
        r.NAME,
        "Name of the export: part of its tables, streams and transactional ids.",
        required=True,
        empty=False,
    ),
    honoured(
        "connector.class",
        r.class_name(dict.fromkeys(CLASSES), "class of the connector"),
        "Changes nothing; another class is refused.",
        CLASSES[0],
    ),
    honoured(
        "tasks.max",
        r.whole(1),
        "Sources, or shards of a snapshot, that are published at a time, at most; absent: all of Spark's cores.",
    ),
    no_effect(
        "tasks.max.enforce",
        r.BOOLEAN,
        "Whether Connect refuses more tasks than tasks.max.",
        "Firn starts no tasks beyond tasks.max in any case.",
        "true",
    ),
    refused(
        "transforms",
        r.LIST,
        "Names of single message transforms.",
        "Give firn.export.row.function, query or column.include.list instead.",
    ),
    no_effect(
        "config.action.reload",
        r.one_of("none", "restart"),
        "What Connect does when a secret changes.",
        "references are resolved at start, and again when a login is refused: docs/credentials.md.",
        "restart",
    ),
)

SOURCE = group(
    "Source",
    honoured(
        "mode",
        r.one_of(*MODES, "bulk"),
        "How changes are found. Not given: by the other parameters (docs/export.md). `bulk` is refused: `compare` "
        "publishes what changed.",
    ),
    honoured("snowflake.stream.name", x.OBJECTS, "The stream; of mode query the streams that the SQL reads."),
    honoured(
        "snowflake.table.name",
        x.OBJECTS,
        "Tables, each with a stream that the export makes; a name that is a stream's is that stream. Of the modes "
        "with cursors one table, of mode compare one table, or those that the SQL reads.",
    ),
    honoured(
        "table.include.list",
        x.REGEXES,
        "Tables by regular expressions over <schema>.<table>, in any case; each gets a stream.",
    ),
    honoured("table.exclude.list", x.REGEXES, "Tables that are left out of those."),
    honoured("table.whitelist", x.REGEXES, "The older name of table.include.list."),
    honoured("table.blacklist", x.REGEXES, "The older name of table.exclude.list."),
    honoured(
        "query",
        x.QUERY,
        "One SELECT. Over streams (mode query) it is consumed as they are: filter, expressions, joins. Otherwise "
        "(mode compare) its rows are compared with those of before, by message.key.columns.",
    ),
    honoured("incrementing.column.name", x.COLUMNS, "Mode incrementing: the column that only grows."),
    honoured("timestamp.column.name", x.COLUMNS, "Mode timestamp: the column of the last change."),
    honoured("firn.export.cursor.columns", x.COLUMNS, "Mode cursor: columns that grow, the most significant first."),
    refused(
        "timestamp.delay.interval.ms",
        r.whole(0),
        "How long the JDBC source waits for late commits.",
        "A row that is committed late with an older value is never found by a cursor: use a stream.",
    ),
    honoured(
        "message.key.columns",
        x.KEYS,
        "Columns of the key, or <schema.table expression>:<columns>, separated by `;`. Without it: the primary "
        "key that the table declares; without one messages have no key.",
    ),
    honoured("firn.export.order.columns", x.COLUMNS, "Columns by which the changes of one key are ordered."),
    honoured(
        "column.include.list",
        x.REGEXES,
        "Columns that are published: expressions over <column> or <schema>.<table>.<column>. Key columns always are.",
    ),
    honoured("column.exclude.list", x.REGEXES, "Columns that are not."),
    honoured("firn.export.mask.hash", x.REGEXES, "Columns whose values are published as SHA-256 of salt and text."),
    honoured("firn.export.mask.salt", r.TEXT, "The salt of these hashes: a reference to a secret.", secret=True),
    honoured("firn.export.mask.replace", x.REGEXES, "Columns whose values are replaced by a text."),
    honoured("firn.export.mask.text", r.ANY, "That text.", "****"),
    honoured("firn.export.mask.truncate", x.REGEXES, "Columns whose values are cut."),
    honoured("firn.export.mask.length", r.whole(0), "Characters that are left of them.", "4"),
    honoured(
        "firn.export.types",
        x.TYPES,
        "Types of message fields by column, `<column>:<type>` separated by `;`: Avro's types and logical types.",
    ),
    honoured(
        "kafka.topic",
        x.TOPIC_TEMPLATE,
        "The topic; {database}, {schema}, {table}, {stream}, {source} are filled in. Required, or topic.prefix.",
    ),
    honoured("topic.prefix", x.PREFIX, "The topic is this prefix and the table's name, as of the JDBC source."),
    honoured(
        "firn.export.checks",
        r.LIST,
        "Names of quality checks. `firn.export.checks.<name>.expression`: SQL over the row's columns that must be "
        "TRUE. `firn.export.checks.<name>.action`: stop (default), dead letter, warn.",
    ),
)

MESSAGES = group(
    "Messages",
    honoured(
        "value.converter",
        r.class_name(dict.fromkeys((AVRO, JSON_SR, JSON)), "converter"),
        "How values are written. Without it and output.data.format: Avro.",
    ),
    honoured(
        "key.converter",
        r.class_name(dict.fromkeys((STRING, AVRO, JSON_SR, JSON)), "converter"),
        "How keys are written. Without it and output.key.format: String.",
    ),
    honoured("output.data.format", r.one_of(*FORMATS), "Format of values, as Confluent Cloud names it."),
    honoured("output.key.format", r.one_of("STRING", *FORMATS), "Format of keys, as Confluent Cloud names it."),
    honoured(
        "firn.export.envelope",
        r.one_of("row", "debezium", "change"),
        "What a value holds: the row; Debezium's before, after and op; or each row of the stream with timestamp, "
        "action, is_update and data.",
        "row",
    ),
    honoured(
        "tombstones.on.delete", r.BOOLEAN, "A delete is followed by, with envelope row it is, a tombstone.", "true"
    ),
    honoured(
        "firn.export.row.function",
        x.FUNCTION,
        "A Python function that each row goes through, <module>:<function>: it gets a dictionary and returns one, "
        "a list of them, or None.",
    ),
    honoured("firn.export.row.function.path", r.TEXT, "The folder or zip file that the module is in."),
    honoured(
        "schema.registry.url",
        r.URLS,
        "The registry of keys and values whose converter names none.",
        elsewhere="registry secret",
    ),
)

BATCHES = group(
    "Batches and polling",
    honoured(
        "poll.interval.ms", x.milliseconds(100), "Time between two looks for data. A look needs no warehouse.", "60000"
    ),
    honoured(
        "firn.export.poll.adaptive",
        r.BOOLEAN,
        "Look sooner after data was found, later after none was. Each move wakes the warehouse.",
        "false",
    ),
    honoured("firn.export.poll.shortest.ms", x.milliseconds(100), "Least time of an adaptive interval.", "1000"),
    honoured("firn.export.poll.longest.ms", x.milliseconds(100), "Most time of an adaptive interval.", "300000"),
    honoured("batch.max.rows", r.whole(1, 1_000_000), "Rows of one Kafka transaction, at most.", "1000"),
    honoured(
        "firn.export.batch.bytes",
        r.whole(1),
        "Bytes of one, of rows as JSON: it ends with the row that passes them.",
        "8388608",
    ),
    honoured(
        "firn.export.retries",
        r.whole(0),
        "Tries after a transient fault, each twice as long after the one before.",
        "3",
    ),
    honoured(
        "snapshot.mode",
        r.one_of("initial", "no_data"),
        "What a source that the export begins with publishes first: the rows that are there, or changes only.",
        "initial",
    ),
    honoured(
        "firn.export.snapshot.shards", r.whole(1, 1000), "Parts of those rows that are published side by side.", "4"
    ),
    honoured(
        "firn.export.task.schedule",
        x.SCHEDULE,
        "A task of Snowflake moves changes into the outbox on this schedule; the export only publishes. Without it, a "
        "task that the export made before is dropped.",
    ),
    honoured("firn.export.task.warehouse", r.NAME, "The warehouse of that task; without it the task is serverless."),
    honoured(
        "firn.export.marker.topic",
        r.TOPIC,
        "The compacted topic that says which batches are published.",
        "firn-export-markers",
    ),
    honoured("firn.export.allow.loop", r.BOOLEAN, "Whether a table may be both a sink's and a source.", "false"),
)

TOPICS = group(
    "Topics that are made",
    honoured("topic.creation.enable", r.BOOLEAN, "Make topics that are absent.", "true"),
    honoured("topic.creation.default.partitions", r.whole(-1), "Their partitions; -1: the broker's default.", "-1"),
    honoured(
        "topic.creation.default.replication.factor",
        r.whole(-1, 32767),
        "Their replicas; -1: the broker's default. `topic.creation.default.<option>` sets their options.",
        "-1",
    ),
)

ERRORS = group(
    "Errors",
    honoured(
        "errors.tolerance",
        r.one_of("none", "all"),
        "`none`: the export stops in front of the batch with a row that no message can be made of. `all`: it goes on.",
        "none",
    ),
    honoured(
        "errors.deadletterqueue.topic.name",
        r.TOPIC,
        "Topic for such rows; needs errors.tolerance=all, or a check with dead letter. `${connector}` is the "
        "export's name.",
        "",
    ),
    honoured("errors.deadletterqueue.topic.replication.factor", r.whole(-1, 32767), "Replicas of that topic.", "3"),
    honoured("errors.log.enable", r.BOOLEAN, "Log such rows one by one.", "false"),
    no_effect("errors.retry.timeout", r.whole(-1), "Milliseconds that Connect retries an operation.", _TASKS, "0"),
    no_effect("errors.retry.delay.max.ms", r.whole(1), "Most time between Connect's attempts.", _TASKS, "60000"),
)

_REGISTRY_OPTIONS = (
    *("schema.registry.url", "basic.auth.credentials.source", "basic.auth.user.info"),
    *("schema.registry.basic.auth.credentials.source", "schema.registry.basic.auth.user.info"),
    *("bearer.auth.credentials.source", "bearer.auth.token", "bearer.auth.logical.cluster"),
    *("bearer.auth.identity.pool.id", "schema.registry.ssl.truststore.location", "schema.registry.ssl.truststore.type"),
)


def _options(side: str) -> Iterable[Parameter]:
    title = f"Options of the {side}'s converter"
    known = [replace(OF_SINKS[f"{side}.converter.{name}"], group=title) for name in _REGISTRY_OPTIONS]
    return (
        *known,
        *group(
            title,
            honoured(f"{side}.converter.schemas.enable", r.BOOLEAN,
                     'JsonConverter: whether a message is {"schema": ..., "payload": ...}.', "true"),
            honoured(f"{side}.converter.auto.register.schemas", r.BOOLEAN,
                     "Register schemas; else the newest one of the subject must fit.", "true"),
        ),
    )  # fmt: skip


_CLOUD = tuple(
    replace(OF_SINKS[f"kafka.{name}"], group="Confluent Cloud")
    for name in ("auth.mode", "api.key", "api.secret", "endpoint")
)
_WAREHOUSE = replace(OF_SINKS["firn.snowflake.warehouse"], group="Snowflake login")

SOURCE_PARAMETERS: Mapping[str, Parameter] = MappingProxyType({each.name: each for each in SOURCE})
SOURCES = group(
    "Several sources",
    honoured("firn.export.sources", r.LIST,
             "Names of sources. `firn.export.sources.<source>.<parameter>` gives one a parameter of the group Source."),
)  # fmt: skip
PARAMETERS: Mapping[str, Parameter] = MappingProxyType(
    {
        each.name: each
        for each in (
            *CONNECT, *SOURCE, *SOURCES, *snowflake.LOGIN, _WAREHOUSE, *snowflake.PROXY, *MESSAGES, *_options("value"),
            *_options("key"), *BATCHES, *TOPICS, *ERRORS, *_CLOUD,
        )
    }
)  # fmt: skip
