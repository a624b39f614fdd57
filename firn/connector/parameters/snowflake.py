"""Where the tables are, who writes them, and how they look."""

from __future__ import annotations

from firn.connector import readers as r
from firn.connector.parameter import group, honoured, no_effect
from firn.snowflake.columns import TableType

_SECRET = "Snowflake secret"  # noqa: S105 (where it comes from, not what it is)
_OAUTH = "only the OAuth login uses it, and Firn logs in with a key pair."

LOGIN = group(
    "Snowflake login",
    honoured(
        "snowflake.url.name",
        r.SNOWFLAKE_URL,
        "Address of the account; scheme and port may be left out.",
        elsewhere=_SECRET,
        empty=False,
    ),
    honoured("snowflake.user.name", r.TEXT, "User of the key-pair login.", elsewhere=_SECRET, empty=False),
    honoured(
        "snowflake.role.name",
        r.TEXT,
        "Role of the session. Required with SNOWPIPE_STREAMING where the file names the user.",
        elsewhere=_SECRET,
    ),
    honoured(
        "snowflake.private.key",
        r.TEXT,
        "RSA private key of the user, 2048 bits or more: PKCS#8 or PKCS#1, with PEM headers or without.",
        elsewhere=_SECRET,
        secret=True,
        empty=False,
    ),
    honoured(
        "snowflake.private.key.passphrase",
        r.TEXT,
        "Passphrase of an encrypted private key.",
        elsewhere=_SECRET,
        secret=True,
    ),
    honoured(
        "snowflake.database.name", r.TEXT, "Database of the tables.", elsewhere="FIRN_SNOWFLAKE_DATABASE", empty=False
    ),
    honoured("snowflake.schema.name", r.TEXT, "Schema of the tables.", elsewhere="FIRN_SNOWFLAKE_SCHEMA", empty=False),
    honoured(
        "snowflake.authenticator",
        r.one_of("snowflake_jwt", "oauth"),
        "How the user logs in. `oauth` is refused: Firn uses the key pair only.",
        "snowflake_jwt",
    ),
    no_effect("snowflake.oauth.client.id", r.TEXT, "Client of the OAuth login.", _OAUTH),
    no_effect("snowflake.oauth.client.secret", r.TEXT, "Secret of that client.", _OAUTH, secret=True),
    no_effect("snowflake.oauth.refresh.token", r.TEXT, "Token of the OAuth login.", _OAUTH, secret=True),
    no_effect("snowflake.oauth.token.endpoint", r.TEXT, "Where OAuth tokens come from.", _OAUTH),
    no_effect("snowflake.oauth.include.scope", r.BOOLEAN, "Whether a token request names a scope.", _OAUTH),
    no_effect("snowflake.oauth.scope", r.TEXT, "That scope.", _OAUTH),
)

PROXY = group(
    "Proxy",
    honoured(
        "jvm.proxy.host",
        r.HOST,
        "HTTP proxy of the Snowflake and the registry client; together with jvm.proxy.port.",
        "",
    ),
    honoured("jvm.proxy.port", r.whole(1, 65535), "Port of the proxy.", ""),
    honoured(
        "jvm.nonProxy.hosts",
        r.HOSTS,
        "Hosts that are reached without the proxy: patterns with `*`, separated by `|`.",
        "",
    ),
    honoured("jvm.proxy.username", r.TEXT, "User of the proxy.", ""),
    honoured("jvm.proxy.password", r.TEXT, "Password of the proxy.", secret=True),
    no_effect(
        "snowflake.jdbc.map",
        r.PAIRS,
        "Properties of Snowflake's JDBC driver.",
        "Firn uses Snowflake's Python driver, whose settings are its own.",
        secret=True,
    ),
)

TABLES = group(
    "Tables",
    honoured(
        "snowflake.topic2table.map",
        r.TABLE_MAP,
        "<topic>:<table>, separated by commas; the topic may be a regular expression, and no two may overlap: neither "
        "in the file nor by matching one topic that the sink reads. Topics that are not named go to a table of their "
        "own name. Many topics may go to one table.",
        "",
    ),
    honoured("auto.create.tables", r.BOOLEAN, "Make a table that is absent.", "true"),
    honoured(
        "snowflake.enable.schematization",
        r.BOOLEAN,
        "A column for each first-level field of a record instead of RECORD_CONTENT, whatever the method.",
        "false",
        v4_default="true",
    ),
    honoured(
        "auto.evolve",
        r.BOOLEAN,
        "With typed columns: whether records that bring new fields, lack required ones or need a wider type change the "
        "table. Not given: those tables evolve that have ENABLE_SCHEMA_EVOLUTION, as the ones do that the sink makes.",
    ),
    honoured(
        "firn.unknown.fields",
        r.one_of("error", "ignore"),
        "With typed columns, in tables that do not evolve: `error` makes a record bad that has a value for a field "
        "without a column, as the older schematization does; `ignore` leaves such fields out, as v4's default pipe "
        "does, and takes tables without RECORD_METADATA.",
        "error",
        v4_default="ignore",
    ),
    honoured(
        "firn.table.max.columns",
        r.whole(1),
        "With typed columns: how many columns a table may come to have by the fields of records. A record with a field "
        "beyond that is bad. Field names that are data (ids, times) would else make a column each.",
        "1000",
    ),
    honoured(
        "firn.table.type",
        r.one_of(*TableType),
        "Type of the tables that the sink makes. Interactive ones can only be streamed into (SNOWPIPE_STREAMING), and "
        "need firn.table.cluster.by.",
        str(TableType.STANDARD),
    ),
    honoured(
        "firn.table.cluster.by",
        r.EXPRESSIONS,
        "Clustering key of the tables that the sink makes: SQL expressions over their columns, separated by commas.",
    ),
    honoured(
        "behavior.on.null.values",
        r.one_of("default", "ignore"),
        "Tombstones: `default` writes a row with the content {}, `ignore` leaves them out.",
        "default",
    ),
    no_effect(
        "snowflake.schematization.auto",
        r.BOOLEAN,
        "Whether Snowflake evolves the schema.",
        "whether tables evolve is said by auto.evolve.",
    ),
)

METADATA = group(
    "RECORD_METADATA",
    honoured("snowflake.metadata.all", r.BOOLEAN, "Without it the column is NULL.", "true"),
    honoured("snowflake.metadata.topic", r.BOOLEAN, "The field topic.", "true"),
    honoured("snowflake.metadata.offset.and.partition", r.BOOLEAN, "The fields offset and partition.", "true"),
    honoured("snowflake.metadata.createtime", r.BOOLEAN, "The field CreateTime or LogAppendTime.", "true"),
    honoured(
        "snowflake.streaming.metadata.connectorPushTime",
        r.BOOLEAN,
        "The field SnowflakeConnectorPushTime.",
        "true",
    ),
    honoured(
        "firn.metadata.timestamp",
        r.BOOLEAN,
        "The field timestamp: the same moment as CreateTime or LogAppendTime, as ISO text in UTC, which "
        "RECORD_METADATA:timestamp::TIMESTAMP reads. No official connector writes it.",
        "false",
    ),
)
