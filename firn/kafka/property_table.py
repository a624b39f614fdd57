"""The table of Kafka's client properties, under their Java names: what each is, and its name in librdkafka.

Every property that Kafka 3.9 documents for consumers. Not for judging a configuration (`firn.kafka.properties`).
Sources: Apache Kafka 3.9 "Consumer Configs", librdkafka's CONFIGURATION.md, Spark's Kafka integration guide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["honoured", "warned", "refused"]

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
FIRST_OFFSET = "auto.offset.reset"
GROUP = "group.id"
DEAD_LETTER_GROUPS = "firn-dlq-"
NOT_FOR_READERS = frozenset({FIRST_OFFSET, GROUP})
"""What is honoured and no reader is told: the sink itself follows it."""
TOKEN_HANDLER = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"  # noqa: S105


@dataclass(frozen=True)
class Property:
    """One row. `librdkafka` is its name there, "" where only Java's clients know it; `bounds` is its range there.

    `form` is Java's type, `least` and `most` its range there: beyond it Java's clients refuse to start.
    """

    kind: Kind = "honoured"
    reason: str = ""
    secret: bool = False
    form: Literal["text", "int", "long", "short", "double"] = "text"
    least: float = 0
    most: float = 0
    allowed: tuple[str, ...] = ()
    librdkafka: str = ""
    bounds: tuple[int, int] | None = None


_NO_GROUP = "The source reads assigned partitions without a consumer group: the sink's progress is in its ledger."
_BROKER_SIDE = "Only brokers look at it."
_CLASSES = "It loads a class into Java's clients that librdkafka, the other client of a sink, cannot follow."
_KERBEROS = (
    "Kerberos (GSSAPI) is not in the librdkafka that confluent-kafka ships. Use PLAIN, SCRAM, OAUTHBEARER or TLS."
)
_BYTES = "Keys and values are read as bytes and converted by key.converter and value.converter."
_IN_JAAS = "Java's clients know it from Kafka 4.1 on, Spark brings 3.9. Write it into sasl.jaas.config."
_BOOLEAN = ("true", "false")


def _each(names: str, row: Property) -> dict[str, Property]:
    return dict.fromkeys(names.split(), row)


def _int(least: int = -(2**31), librdkafka: str = "", low: int = 0, high: int = 2**31 - 1) -> Property:
    bounds = (low, high) if librdkafka else None
    return Property(form="int", least=least, most=2**31 - 1, librdkafka=librdkafka, bounds=bounds)


def _long(least: int = -(2**63), librdkafka: str = "", low: int = 0, high: int = 2**31 - 1) -> Property:
    return replace(_int(least, librdkafka, low, high), form="long", most=2**63 - 1)


_SECURITY: dict[str, Property] = {
    "security.protocol": Property(allowed=PROTOCOLS),
    "sasl.mechanism": Property(allowed=MECHANISMS),
    "sasl.jaas.config": Property(secret=True),
    "sasl.login.callback.handler.class": Property(allowed=(TOKEN_HANDLER, TOKEN_HANDLER.replace(".secured.", "."))),
    "sasl.oauthbearer.token.endpoint.url": Property(librdkafka="sasl.oauthbearer.token.endpoint.url"),
    "sasl.oauthbearer.header.urlencode": Property(allowed=_BOOLEAN),
    **_each("sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name", Property()),
    **_each("sasl.login.connect.timeout.ms sasl.login.read.timeout.ms", _int()),
    **_each("sasl.login.retry.backoff.ms sasl.login.retry.backoff.max.ms", _long()),
    "sasl.login.refresh.buffer.seconds": Property(form="short", least=0, most=3600),
    "sasl.login.refresh.min.period.seconds": Property(form="short", least=0, most=900),
    "sasl.login.refresh.window.factor": Property(form="double", least=0.5, most=1.0),
    "sasl.login.refresh.window.jitter": Property(form="double", least=0.0, most=0.25),
    **_each("ssl.truststore.location ssl.truststore.certificates", Property()),
    **_each("ssl.keystore.location ssl.keystore.certificate.chain", Property()),
    **_each("ssl.truststore.type ssl.keystore.type", Property(allowed=("PEM", "PKCS12", "JKS"))),
    **_each("ssl.truststore.password ssl.keystore.password ssl.keystore.key ssl.key.password", Property(secret=True)),
    "ssl.endpoint.identification.algorithm": Property(allowed=("https", "")),
    # Names of Java's TLS, which OpenSSL does not share.
    **_each("ssl.cipher.suites ssl.enabled.protocols ssl.protocol ssl.provider", Property()),
    **_each(
        "ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation security.providers"
        " ssl.engine.factory.class sasl.login.class sasl.client.callback.handler.class",
        Property("refused", _CLASSES),
    ),
    **_each(
        "sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name"
        " sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor",
        Property("refused", _KERBEROS),
    ),
    **_each(
        "sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer"
        " sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"
        " sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url",
        Property("warned", _BROKER_SIDE),
    ),
    **_each("sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.scope", Property("refused", _IN_JAAS)),
    "sasl.oauthbearer.client.credentials.client.secret": Property("refused", _IN_JAAS, secret=True),
}

_CONNECTION: dict[str, Property] = {
    "bootstrap.servers": Property(librdkafka="bootstrap.servers"),
    "client.id": Property(librdkafka="client.id"),
    "client.dns.lookup": Property(
        allowed=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"), librdkafka="client.dns.lookup"
    ),
    "metadata.recovery.strategy": Property(allowed=("none", "rebootstrap"), librdkafka="metadata.recovery.strategy"),
    "enable.metrics.push": Property(allowed=_BOOLEAN, librdkafka="enable.metrics.push"),
    "request.timeout.ms": _int(0, "socket.timeout.ms", 10, 300_000),
    "default.api.timeout.ms": _int(0),
    "retries": _int(0),
    "metadata.max.age.ms": _long(0, "topic.metadata.refresh.interval.ms", 1, 3_600_000),
    "connections.max.idle.ms": _long(librdkafka="connections.max.idle.ms"),
    "socket.connection.setup.timeout.ms": _long(librdkafka="socket.connection.setup.timeout.ms", low=1000),
    "socket.connection.setup.timeout.max.ms": _long(),
    "reconnect.backoff.ms": _long(0, "reconnect.backoff.ms", 0, 3_600_000),
    "reconnect.backoff.max.ms": _long(0, "reconnect.backoff.max.ms", 0, 3_600_000),
    "retry.backoff.ms": _long(0, "retry.backoff.ms", 1, 300_000),
    "retry.backoff.max.ms": _long(0, "retry.backoff.max.ms", 1, 300_000),
    "receive.buffer.bytes": _int(-1, "socket.receive.buffer.bytes", 0, 100_000_000),
    "send.buffer.bytes": _int(-1, "socket.send.buffer.bytes", 0, 100_000_000),
    "metrics.num.samples": _int(1),
    "metrics.sample.window.ms": _long(0),
    "metrics.recording.level": Property(allowed=("INFO", "DEBUG", "TRACE")),
    "auto.include.jmx.reporter": Property(allowed=_BOOLEAN),
    "metric.reporters": Property("refused", _CLASSES),
    "config.providers": Property(
        "refused", "References such as ${env:NAME} are resolved when the configuration is read."
    ),
}

_READING: dict[str, Property] = {
    FIRST_OFFSET: Property(
        reason="It sets where the sink's first start begins; later starts continue from the ledger.",
        allowed=("earliest", "latest"),
    ),
    "isolation.level": Property(allowed=("read_uncommitted", "read_committed"), librdkafka="isolation.level"),
    "client.rack": Property(librdkafka="client.rack"),
    "check.crcs": Property(allowed=_BOOLEAN, librdkafka="check.crcs"),
    "fetch.min.bytes": _int(0, "fetch.min.bytes", 1, 100_000_000),
    # librdkafka wants at least its message.max.bytes here.
    "fetch.max.bytes": _int(0, "fetch.max.bytes", 1_000_000, 2_147_483_135),
    "fetch.max.wait.ms": _int(0, "fetch.wait.max.ms", 0, 300_000),
    "max.partition.fetch.bytes": _int(0, "max.partition.fetch.bytes", 1, 1_000_000_000),
    GROUP: Property(
        reason="It names the group under which the sink publishes its committed positions, for lag tools; the default "
        "is connect-<name>. Nothing is read as a member of it.",
    ),
    "max.poll.records": Property(
        "warned", "Batches are bounded by firn.batch.records and the buffer, not by single polls of Spark's source."
    ),
    **_each(
        "group.instance.id group.protocol group.remote.assignor session.timeout.ms heartbeat.interval.ms"
        " max.poll.interval.ms partition.assignment.strategy enable.auto.commit auto.commit.interval.ms",
        Property("warned", _NO_GROUP),
    ),
    "exclude.internal.topics": Property("warned", "Internal topics are never matched by topics.regex."),
    "allow.auto.create.topics": Property("warned", "Reading never makes a topic: one that is absent is an error."),
    **_each("key.deserializer value.deserializer", Property("refused", _BYTES)),
    "interceptor.classes": Property("refused", "Spark's source refuses interceptors: they could change what is read."),
}

PROPERTIES: dict[str, Property] = _SECURITY | _CONNECTION | _READING

PRODUCER_ONLY = frozenset(
    _each(
        "acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type"
        " compression.zstd.level delivery.timeout.ms enable.idempotence key.serializer linger.ms max.block.ms"
        " max.request.size max.in.flight.requests.per.connection metadata.max.idle.ms"
        " partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class"
        " partitioner.ignore.keys transaction.timeout.ms transactional.id value.serializer interceptor.classes",
        Property(),
    )
)
"""What Kafka documents for producers besides what every client has."""

CONSUMER_ONLY = frozenset(_READING)
