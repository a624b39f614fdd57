"""How rows travel: method, buffers, the options of both methods, and our own."""

from __future__ import annotations

from firn.connector import readers as r
from firn.connector.parameter import Effect, group, honoured, no_effect

_CLEANER = "Firn removes its staged files after each commit and, at start, those that earlier runs left."
_CHANNELS = "Firn keeps the position of each partition in its ledger, whatever the method."
_NO_JMX = (
    "there is no JVM of Connect here; with firn.metrics.port metrics are served to Prometheus, without it nowhere."
)

METHOD = group(
    "Method and buffers",
    honoured(
        "snowflake.ingestion.method",
        r.one_of("SNOWPIPE", "SNOWPIPE_STREAMING"),
        "SNOWPIPE stages files and copies them, batch by batch. SNOWPIPE_STREAMING appends rows to channels as they "
        "are read. Which to take, and how to switch: docs/methods.md.",
        "SNOWPIPE",
    ),
    honoured(
        "buffer.count.records", r.whole(1), "SNOWPIPE: records of a partition that fill a file.", "10000", empty=False
    ),
    honoured(
        "buffer.flush.time",
        r.at_most(86_400),
        "Seconds that records wait at most. Less than the minimum (10 with SNOWPIPE, 1 with SNOWPIPE_STREAMING) is "
        "raised to it, with a warning.",
        "120",
        streaming_default="10",
        empty=False,
    ),
    honoured(
        "buffer.size.bytes",
        r.whole(1),
        "SNOWPIPE: bytes of a partition that fill a file.",
        "5000000",
        streaming_default="20000000",
        empty=False,
    ),
)

STREAMING = group(
    "SNOWPIPE_STREAMING",
    honoured(
        "snowflake.streaming.max.client.lag",
        r.seconds(0),
        "Seconds that the client keeps rows before it sends them, at most; also a fraction. Less makes rows visible "
        "sooner, by more and smaller requests.",
        "0.2",
    ),
    honoured(
        "snowflake.streaming.max.memory.limit.bytes",
        r.whole(-1),
        "Bytes that the client holds of one partition before Snowflake has taken them, in whole MB: reading "
        "waits beyond that. 20 MB at least, for the largest row. -1: 32 MB.",
        "-1",
    ),
    honoured(
        "snowflake.streaming.client.provider.override.map",
        r.PAIRS,
        "Properties of the streaming client, `<name>:<value>` separated by commas, with the names of Snowflake's SDK "
        "or the classic connector's `MAX_CLIENT_LAG` (seconds) and `MAX_MEMORY_LIMIT_IN_BYTES`. A parameter of its own "
        "wins. Login and address are the sink's own.",
        "",
        secret=True,
    ),
    no_effect(
        "enable.streaming.client.optimization",
        r.BOOLEAN,
        "One client for all partitions. Only with SNOWPIPE_STREAMING.",
        "a task has one client for each pipe, since Snowflake's client writes to one pipe.",
        "true",
    ),
    no_effect(
        "snowflake.streaming.enable.single.buffer",
        r.BOOLEAN,
        "Whether the connector has no buffer of its own beside the client's.",
        "Firn has no buffer beside the client's: rows are appended as they are read.",
        "true",
    ),
    no_effect(
        "snowflake.streaming.closeChannelsInParallel.enabled",
        r.BOOLEAN,
        "Whether channels are closed in parallel.",
        _CHANNELS,
        "true",
    ),
    no_effect(
        "enable.streaming.channel.offset.migration",
        r.BOOLEAN,
        "Takes offsets over from channels under older names.",
        _CHANNELS,
        "true",
    ),
    no_effect(
        "enable.streaming.channel.offset.verification",
        r.BOOLEAN,
        "Whether offsets of a channel must grow.",
        "Firn always checks them, with either method.",
        "true",
    ),
    no_effect(
        "snowflake.streaming.channel.name.include.connector.name",
        r.BOOLEAN,
        "Whether names of channels carry the connector's name.",
        "Firn's channels always carry the sink's name.",
        "false",
    ),
    no_effect("snowflake.streaming.file.version", r.TEXT, "Version of the client's files.", "the client chooses it."),
    honoured(
        "snowflake.streaming.iceberg.enabled",
        r.only("false", "Iceberg tables are not supported; write to a standard table"),
        "Whether tables are Iceberg tables.",
        "false",
    ),
)

ONLY_STREAMING = (
    *(each.name for each in STREAMING if each.effect is Effect.HONOURED and not each.reader.why),
    *("firn.ledger.seconds", "firn.streaming.idle.seconds"),
)
"""What governs SNOWPIPE_STREAMING and nothing else."""

SNOWPIPE = group(
    "SNOWPIPE and the connector's process",
    no_effect("snowflake.snowpipe.v2CleanerEnabled", r.BOOLEAN, "Whether staged files are cleaned.", _CLEANER, "true"),
    no_effect("snowflake.snowpipe.v2CleanerThreads", r.whole(1), "Threads that clean.", _CLEANER, "1"),
    no_effect("snowflake.snowpipe.v2CleanerIntervalSeconds", r.whole(1), "How often they do.", _CLEANER, "61"),
    no_effect(
        "snowflake.snowpipe.v1Cleaner.enable.reprocessFiles.cleanup",
        r.BOOLEAN,
        "Whether the older cleaner removes files that were loaded again.",
        _CLEANER,
        "true",
    ),
    no_effect(
        "snowflake.snowpipe.stageFileNameExtensionEnabled",
        r.BOOLEAN,
        "Whether names of staged files carry the topic.",
        "Firn's staged files always carry sink, table, topic and partition.",
        "true",
    ),
    no_effect("jmx", r.BOOLEAN, "Metrics by JMX.", _NO_JMX, "true"),
    no_effect("enable.mdc.logging", r.BOOLEAN, "Connect's context in log lines.", "Firn's log has its own.", "false"),
    no_effect(
        "provider",
        r.one_of("UNKNOWN", "SELF_HOSTED", "CONFLUENT"),
        "Who hosts Kafka.",
        "the official connector only counts it.",
        "UNKNOWN",
    ),
    no_effect(
        "delivery.guarantee",
        r.one_of("AT_LEAST_ONCE", "EXACTLY_ONCE"),
        "Of older connectors.",
        "Firn always delivers exactly once.",
    ),
    no_effect("snowflake.test.rebalancing", r.BOOLEAN, "For the connector's own tests.", "it only tests.", "false"),
)

FIRN = group(
    "Firn's own",
    honoured(
        "firn.snowflake.warehouse",
        r.TEXT,
        "Warehouse that runs COPY.",
        elsewhere="Snowflake secret or FIRN_SNOWFLAKE_WAREHOUSE",
    ),
    honoured(
        "firn.batch.records", r.whole(1), "Records of one batch and commit at most, over all partitions.", "500000"
    ),
    honoured(
        "firn.batch.bytes",
        r.whole(1),
        "Bytes of text of one batch, about: a range of offsets ends where it passes its share.",
        str(512 * 1024**2),
    ),
    honoured("firn.trigger.interval.seconds", r.seconds(0), "Seconds between the starts of two batches.", "1"),
    honoured(
        "firn.topics.refresh.seconds",
        r.seconds(1),
        "How often the sink looks for new topics of topics.regex, and for new partitions of all its topics.",
        "30",
    ),
    honoured(
        "firn.heartbeat.seconds",
        r.seconds(1, off=True),
        "How often a driver says in Kafka that it lives, so that a driver that was replaced ends also where no record "
        "comes, and `firn sink offsets --reset` sees that the sink runs. 0: never. Where Kafka takes no sign, the "
        "ledger gets a heartbeat instead, which wakes a warehouse.",
        "30",
    ),
    honoured(
        "firn.ledger.seconds",
        r.seconds(1),
        "SNOWPIPE_STREAMING: seconds between two moves of the ledger, at least. Each is a statement that needs a "
        "warehouse. Positions are exact without it: the ledger also moves at the orderly end, and every start takes "
        "what the channels say.",
        "600",
    ),
    honoured(
        "firn.streaming.idle.seconds",
        r.seconds(1),
        "SNOWPIPE_STREAMING: seconds without a record until a group of partitions gives its Spark task back. The next "
        "record starts it again.",
        "300",
    ),
    honoured(
        "firn.share.target",
        r.BOOLEAN,
        "Whether this sink may load a topic into a table although another sink loads the same topic into it. Without "
        "it the second one is refused: its rows would be doubles.",
        "false",
    ),
    honoured(
        "firn.metrics.port",
        r.whole(0, 65_535),
        "Port on which the driver serves its metrics to Prometheus (docs/metrics.md); 0: none. Each sink on a machine "
        "needs its own. One that is in use ends no sink: there is a warning, and it is tried again.",
        "0",
    ),
    honoured(
        "firn.metrics.host",
        r.HOST,
        "Address of that port. Whoever reaches it may read the metrics: there is no login. They hold names of topics, "
        "and no record.",
        "127.0.0.1",
    ),
)
