"""The table of Kafka's client properties, under their Java names: what each is, and its name in librdkafka.

Every property that Kafka 4.1 documents for consumers. Not for judging a configuration (`firn.kafka.properties`).
Sources: Apache Kafka 4.1 "Consumer Configs", librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["honoured", "no effect", "refused"]

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
FIRST_OFFSET = "auto.offset.reset"
GROUP = "group.id"
OWN_GROUPS = ("firn-dlq-", "firn-replay-", "firn-tasks-", "firn-sign-", "firn-request-")
"""How the groups begin in which sinks remember things (`firn.ledger.kafka_names`)."""
NOT_FOR_READERS = frozenset({FIRST_OFFSET, GROUP})
"""What the sink itself follows: honoured, and no property of its readers."""
KERBEROS = (
    "Kerberos (GSSAPI) is not in the librdkafka that confluent-kafka ships. Use PLAIN, SCRAM, OAUTHBEARER or client "
    "certificates."
)


@dataclass(frozen=True)
class Property:
    """One row. `librdkafka` is its name there, "" where another name is not enough; `bounds` is its range there.

    `least` and `most` are a number's range in Java: what Kafka Connect takes is taken. `otherwise` says what to do
    about a value that is not `allowed`.
    """

    kind: Kind = "honoured"
    reason: str = ""
    secret: bool = False
    form: Literal["text", "number"] = "text"
    least: int = 0
    most: int = 0
    allowed: tuple[str, ...] = ()
    otherwise: str = ""
    librdkafka: str = ""
    bounds: tuple[int, int] | None = None


_NO_GROUP = "The sink reads assigned partitions without a consumer group: its progress is in its ledger."
_BROKER_SIDE = "Only brokers look at it."
_NO_CLASSES = "It loads a Java class, and the sink's Kafka client is librdkafka."
_LOGINS = "Log in with PLAIN, SCRAM, OAUTHBEARER or client certificates."
_BYTES = "Keys and values are read as bytes and converted by key.converter and value.converter."
_OPENSSL = "It names a part of Java's TLS. The sink's Kafka client uses OpenSSL."
_TOKENS = "The client has time limits of its own for requests to the token endpoint."
_REFRESH = "The client renews a token when 80 % of its lifetime has passed."
_METRICS = "It concerns the metrics of Java's client. firn.metrics.port serves the sink's metrics to Prometheus."
_ASSERTION = "The sink gets tokens by client credentials (clientId, clientSecret), not by an assertion."
_CONVERT = "keytool -importkeystore -deststoretype PKCS12 converts a store of another type."
_BOOLEAN = ("true", "false")
_OAUTH = "org.apache.kafka.common.security.oauthbearer"


def _each(names: str, row: Property) -> dict[str, Property]:
    return dict.fromkeys(names.split(), row)


def _int(least: int = -(2**31), librdkafka: str = "", low: int = 0, high: int = 2**31 - 1) -> Property:
    return Property(form="number", least=least, most=2**31 - 1, librdkafka=librdkafka, bounds=(low, high))


def _long(least: int = -(2**63), librdkafka: str = "", low: int = 0, high: int = 2**31 - 1) -> Property:
    return replace(_int(least, librdkafka, low, high), most=2**63 - 1)


_SECURITY: dict[str, Property] = {
    "security.protocol": Property(allowed=PROTOCOLS),
    "sasl.mechanism": Property(allowed=MECHANISMS, otherwise=KERBEROS),
    "sasl.jaas.config": Property(secret=True),
    **_each("ssl.truststore.location ssl.truststore.certificates", Property()),
    **_each("ssl.keystore.location ssl.keystore.certificate.chain", Property()),
    **_each("ssl.truststore.type ssl.keystore.type", Property(allowed=("PEM", "PKCS12", "JKS"), otherwise=_CONVERT)),
    **_each("ssl.truststore.password ssl.keystore.password ssl.keystore.key ssl.key.password", Property(secret=True)),
    "ssl.endpoint.identification.algorithm": Property(allowed=("https", "")),
    "ssl.cipher.suites": Property(
        "no effect", "Its names are Java's. The client offers OpenSSL's default cipher suites, and the broker chooses."
    ),
    **_each(
        "ssl.enabled.protocols ssl.protocol",
        Property("no effect", "Client and broker agree on the newest version of TLS that both support."),
    ),
    **_each(
        "ssl.provider ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation",
        Property("no effect", _OPENSSL),
    ),
    **_each(
        "security.providers ssl.engine.factory.class",
        Property("refused", f"{_NO_CLASSES} Name certificates with ssl.truststore.* and ssl.keystore.*."),
    ),
    **_each("sasl.login.class sasl.client.callback.handler.class", Property("refused", f"{_NO_CLASSES} {_LOGINS}")),
    **_each(
        "sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name"
        " sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor",
        Property("refused", KERBEROS),
    ),
}

_TOKEN_LOGIN: dict[str, Property] = {
    "sasl.login.callback.handler.class": Property(
        allowed=(f"{_OAUTH}.OAuthBearerLoginCallbackHandler", f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler"),
        otherwise=f"{_NO_CLASSES} {_LOGINS}",
    ),
    "sasl.oauthbearer.jwt.retriever.class": Property(
        allowed=(f"{_OAUTH}.DefaultJwtRetriever", f"{_OAUTH}.ClientCredentialsJwtRetriever"),
        otherwise=f"{_NO_CLASSES} {_ASSERTION}",
    ),
    "sasl.oauthbearer.jwt.validator.class": Property(
        allowed=(f"{_OAUTH}.DefaultJwtValidator", f"{_OAUTH}.ClientJwtValidator"), otherwise=_NO_CLASSES
    ),
    "sasl.oauthbearer.token.endpoint.url": Property(librdkafka="sasl.oauthbearer.token.endpoint.url"),
    **_each("sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.scope", Property()),
    "sasl.oauthbearer.client.credentials.client.secret": Property(secret=True),
    "sasl.oauthbearer.header.urlencode": Property(allowed=_BOOLEAN),
    "sasl.oauthbearer.sub.claim.name": Property(librdkafka="sasl.oauthbearer.sub.claim.name"),
    "sasl.oauthbearer.scope.claim.name": Property("no effect", "The client does not look at the scope in a token."),
    **_each(
        "sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.retry.backoff.ms"
        " sasl.login.retry.backoff.max.ms",
        Property("no effect", _TOKENS),
    ),
    **_each(
        "sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor"
        " sasl.login.refresh.window.jitter",
        Property("no effect", _REFRESH),
    ),
    **_each(
        "sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer"
        " sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"
        " sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url",
        Property("no effect", _BROKER_SIDE),
    ),
    **_each(
        "sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud"
        " sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss"
        " sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds"
        " sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file"
        " sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.template.file",
        Property("refused", _ASSERTION),
    ),
    "sasl.oauthbearer.assertion.private.key.passphrase": Property("refused", _ASSERTION, secret=True),
}

_CONNECTION: dict[str, Property] = {
    "bootstrap.servers": Property(librdkafka="bootstrap.servers"),
    "client.id": Property(librdkafka="client.id"),
    "client.dns.lookup": Property(
        allowed=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"), librdkafka="client.dns.lookup"
    ),
    "metadata.recovery.strategy": Property(allowed=("none", "rebootstrap"), librdkafka="metadata.recovery.strategy"),
    "metadata.recovery.rebootstrap.trigger.ms": _long(0, "metadata.recovery.rebootstrap.trigger.ms"),
    "enable.metrics.push": Property(allowed=_BOOLEAN, librdkafka="enable.metrics.push"),
    "request.timeout.ms": _int(0, "socket.timeout.ms", 10, 300_000),
    "metadata.max.age.ms": _long(0, "topic.metadata.refresh.interval.ms", 1, 3_600_000),
    "connections.max.idle.ms": _long(librdkafka="connections.max.idle.ms"),
    "socket.connection.setup.timeout.ms": _long(librdkafka="socket.connection.setup.timeout.ms", low=1000),
    "reconnect.backoff.ms": _long(0, "reconnect.backoff.ms", 0, 3_600_000),
    "reconnect.backoff.max.ms": _long(0, "reconnect.backoff.max.ms", 0, 3_600_000),
    "retry.backoff.ms": _long(0, "retry.backoff.ms", 1, 300_000),
    "retry.backoff.max.ms": _long(0, "retry.backoff.max.ms", 1, 300_000),
    "receive.buffer.bytes": _int(-1, "socket.receive.buffer.bytes", 0, 100_000_000),
    "send.buffer.bytes": _int(-1, "socket.send.buffer.bytes", 0, 100_000_000),
    "socket.connection.setup.timeout.max.ms": Property(
        "no effect", "Every attempt to connect ends after socket.connection.setup.timeout.ms."
    ),
    **_each(
        "default.api.timeout.ms retries",
        Property("no effect", "A sink tries again until FIRN_SINK_PATIENCE_SECONDS have passed without any progress."),
    ),
    **_each(
        "metric.reporters metrics.num.samples metrics.sample.window.ms metrics.recording.level"
        " auto.include.jmx.reporter",
        Property("no effect", _METRICS),
    ),
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
    **_each(
        "fetch.min.bytes fetch.max.wait.ms",
        Property("no effect", "A range of offsets is read that is there already: nothing is worth waiting for."),
    ),
    # librdkafka requires at least its message.max.bytes here.
    "fetch.max.bytes": _int(0, "fetch.max.bytes", 1_000_000, 2_147_483_135),
    "max.partition.fetch.bytes": _int(0, "max.partition.fetch.bytes", 1, 1_000_000_000),
    GROUP: Property(
        reason="It names the group under which the sink publishes its committed positions, for lag tools; the default "
        "is connect-<name>. Nothing is read as a member of it.",
    ),
    "max.poll.records": Property(
        "no effect", "Batches are bounded by firn.batch.records, firn.batch.bytes and the buffer, not by single polls."
    ),
    **_each(
        "group.instance.id group.protocol group.remote.assignor session.timeout.ms heartbeat.interval.ms"
        " max.poll.interval.ms partition.assignment.strategy enable.auto.commit auto.commit.interval.ms"
        " share.acknowledgement.mode",
        Property("no effect", _NO_GROUP),
    ),
    "exclude.internal.topics": Property("no effect", "Internal topics are never matched by topics.regex."),
    "allow.auto.create.topics": Property("no effect", "Reading never makes a topic: one that is absent is an error."),
    **_each("key.deserializer value.deserializer", Property("refused", _BYTES)),
    "interceptor.classes": Property("refused", f"{_NO_CLASSES} Change records in dbt, or before they are in Kafka."),
}

PROPERTIES: dict[str, Property] = _SECURITY | _TOKEN_LOGIN | _CONNECTION | _READING

PRODUCER_ONLY = frozenset(
    _each(
        "acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type"
        " compression.zstd.level delivery.timeout.ms enable.idempotence key.serializer linger.ms max.block.ms"
        " max.request.size max.in.flight.requests.per.connection metadata.max.idle.ms"
        " partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class"
        " partitioner.ignore.keys transaction.timeout.ms transaction.two.phase.commit.enable transactional.id"
        " value.serializer interceptor.classes",
        Property(),
    )
)
"""What Kafka documents for producers besides what every client has."""

CONSUMER_ONLY = frozenset(_READING)
