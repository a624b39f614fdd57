"""Rules over several parameters: topics, method, login, proxy, errors, buffers, Kafka's client.

Source of the rules: the official connector's checks (tests/vectors/config_validation.json). Converters have their own
(`firn.connector.conversion`).
"""

from __future__ import annotations

from pydantic import SecretStr

from firn.connector.check import Check
from firn.connector.config import Method
from firn.connector.parameter import ReadError
from firn.connector.parameters import PARAMETERS
from firn.connector.parameters.loading import ONLY_STREAMING
from firn.connector.readers import TOPIC
from firn.connector.streaming import OPTIMIZATION, check_streaming
from firn.errors import ConfigError
from firn.java_regex import matches
from firn.kafka.properties import KafkaProperty, faults, managed_properties, store_faults, treatment
from firn.kafka.property_table import FIRST_OFFSET
from firn.keys import IN_CONNECTOR, private_key_der
from firn.snowflake.columns import TableType

_DLQ = "errors.deadletterqueue.topic.name"
_FLUSH_MINIMUM = {Method.SNOWPIPE: 10, Method.SNOWPIPE_STREAMING: 1}


def apply_rules(check: Check) -> None:
    """All rules but those of converters; faults and warnings go into the check."""
    for name, parameter in PARAMETERS.items():
        if parameter.required and not check.has(name):
            check.fault(name, "is required")
    _topics(check)
    _method(check)
    _tables(check)
    check_login(check)
    check_proxy(check)
    _buffers(check)
    _errors(check)
    check_kafka(check)
    _metrics(check)


def kafka_properties(check: Check) -> tuple[KafkaProperty, ...]:
    """Client properties under Java's names: managed names, then kafka.*, then the client's own prefix, which wins."""
    kafka_property = check.definitions.kafka_property
    properties = list(_managed(check))
    for prefix in ("kafka.", check.definitions.client):
        for name, given in check.given.items():
            java = kafka_property(name) if name.startswith(prefix) else None
            if java and java != FIRST_OFFSET and given.value is not None and treatment(java).kind == "honoured":
                text = given.value
                properties.append(KafkaProperty(java, text if isinstance(text, SecretStr) else SecretStr(text)))
    return tuple({each.name: each for each in properties}.values())


def first_offset(check: Check) -> str:
    """Where a sink begins that has never run."""
    for name in (f"consumer.override.{FIRST_OFFSET}", f"kafka.{FIRST_OFFSET}"):
        if check.has(name) and check.given[name].value:
            return str(check.given[name].value).strip().lower()
    return "earliest"


def makes_tables(check: Check) -> bool:
    """Whether a table that is absent is made."""
    return bool(check.get("auto.create.tables")) and check.get("snowflake.autocreate.table.type") != "none"


def dead_letter_topic(check: Check) -> str | None:
    """The topic of dead letters with the sink's name put in; None without one."""
    topic, name = check.get(_DLQ), check.get("name")
    return str(topic).replace("${connector}", name or "") if topic else None


def _topics(check: Check) -> None:
    if check.has("topics") and check.has("topics.regex"):
        check.fault("topics.regex", "is given beside topics: exactly one of the two must be")
    if not check.has("topics") and not check.has("topics.regex"):
        check.fault("topics", "is required, or topics.regex")


def _method(check: Check) -> None:
    named = check.given.get("snowflake.ingestion.method")
    if check.streaming_class and named and named.value == Method.SNOWPIPE:
        check.fault("snowflake.ingestion.method", "contradicts connector.class, which streams", ("SNOWPIPE_STREAMING",))
    if check.method is Method.SNOWPIPE_STREAMING:
        if check.has("snowflake.user.name") and not check.has("snowflake.role.name"):
            check.fault("snowflake.role.name", "is required with SNOWPIPE_STREAMING")
        check_streaming(check)
    else:
        if check.has(OPTIMIZATION) and check.get(OPTIMIZATION):
            check.fault(OPTIMIZATION, "is only available with SNOWPIPE_STREAMING", ("false",))
        for name in ONLY_STREAMING:
            if check.has(name):
                check.warn(name, "has no effect with SNOWPIPE.")


def _tables(check: Check) -> None:
    if check.get("auto.evolve") and not check.get("snowflake.enable.schematization"):
        check.warn("auto.evolve", "has no effect without snowflake.enable.schematization=true.")
    if check.get("snowflake.autocreate.table.type") == "iceberg":
        problem = "is refused: Firn does not write to Iceberg tables"
        check.fault("snowflake.autocreate.table.type", problem, ("snowflake", "none"))
    if check.get("firn.table.type") == TableType.INTERACTIVE:
        if check.method is Method.SNOWPIPE:
            problem = "needs snowflake.ingestion.method=SNOWPIPE_STREAMING: interactive tables take no COPY"
            check.fault("firn.table.type", problem, (TableType.STANDARD, TableType.TRANSIENT))
        if not check.has("firn.table.cluster.by"):
            check.fault("firn.table.cluster.by", "is required with firn.table.type=interactive")
    for name in ("firn.table.type", "firn.table.cluster.by"):
        if check.has(name) and not makes_tables(check):
            check.warn(name, "has no effect: the sink does not make tables.")


def check_login(check: Check) -> None:
    """Rules of the login to Snowflake, which files of every kind have."""
    if check.get("snowflake.authenticator") == "oauth":
        for field in ("client.id", "client.secret", "refresh.token"):
            if not check.has(f"snowflake.oauth.{field}"):
                check.fault(f"snowflake.oauth.{field}", "is required with snowflake.authenticator=oauth")
        check.fault("snowflake.authenticator", "is refused: Firn logs in with a key pair only", ("snowflake_jwt",))
    key, passphrase = (check.get(f"snowflake.private.key{suffix}") for suffix in ("", ".passphrase"))
    if check.has("snowflake.private.key.passphrase") and not check.has("snowflake.private.key"):
        check.fault("snowflake.private.key.passphrase", "is given without snowflake.private.key")
    if key is None or "snowflake.private.key.passphrase" in check.unchecked:
        return
    try:
        private_key_der(key, passphrase, IN_CONNECTOR)
    except ConfigError as error:
        check.fault("snowflake.private.key", f"cannot be used: {error.what} {error.next_step}")


def check_proxy(check: Check) -> None:
    """Rules of the proxy, which files of every kind have."""
    host, port = (check.has(f"jvm.proxy.{part}") for part in ("host", "port"))
    if host != port:
        check.fault("jvm.proxy.host", "must be given together with jvm.proxy.port")
        check.fault("jvm.proxy.port", "must be given together with jvm.proxy.host")
    if check.has("jvm.proxy.username") != check.has("jvm.proxy.password"):
        given, other = ("username", "password") if check.has("jvm.proxy.username") else ("password", "username")
        check.fault(f"jvm.proxy.{given}", f"must be given together with jvm.proxy.{other}")
    if not host:
        for name in ("jvm.proxy.username", "jvm.proxy.password", "jvm.nonProxy.hosts"):
            if check.has(name):
                check.warn(name, "has no effect: no proxy is named (jvm.proxy.host).")


def _buffers(check: Check) -> None:
    minimum = _FLUSH_MINIMUM[check.method]
    seconds = check.get("buffer.flush.time")
    if check.has("buffer.flush.time") and seconds < minimum:
        check.override("buffer.flush.time", minimum, str(minimum))
        check.warn(
            "buffer.flush.time",
            f"is below the minimum of {check.method} and raised to {minimum} s, as the official connector does.",
        )


def _errors(check: Check) -> None:
    tolerant = check.get("errors.tolerance") == "all"
    if check.has(_DLQ) and not tolerant:
        check.warn(_DLQ, "has no effect without errors.tolerance=all.")
    for option in ("topic.replication.factor", "context.headers.enable"):
        name = f"errors.deadletterqueue.{option}"
        if check.has(name) and not (check.has(_DLQ) and tolerant):
            check.warn(name, f"has no effect without errors.tolerance=all and {_DLQ}.")
    if check.get("errors.deadletterqueue.topic.replication.factor") == 0:
        check.fault("errors.deadletterqueue.topic.replication.factor", "would be a topic without replicas")
    if check.has("errors.log.include.messages") and not check.get("errors.log.enable"):
        check.warn("errors.log.include.messages", "has no effect without errors.log.enable=true.")
    if topic := dead_letter_topic(check):
        _dead_letter_topic(check, topic)


def _dead_letter_topic(check: Check, topic: str) -> None:
    """A topic that Kafka allows, and none that the sink reads: it would be fed with what it cannot read."""
    try:
        TOPIC.parse(topic)
    except ReadError as error:
        check.fault(_DLQ, f"{error.problem}, with the sink's name in it")
        return
    if topic in (check.get("topics") or ()):
        check.fault(_DLQ, "is one of the sink's own topics")
    expression = check.get("topics.regex")
    if expression and matches(expression, topic):
        check.fault(_DLQ, "is matched by topics.regex, so that the sink would read its own dead letters")


def _metrics(check: Check) -> None:
    if check.has("firn.metrics.host") and not check.get("firn.metrics.port"):
        check.warn("firn.metrics.host", "has no effect without firn.metrics.port.")


def _managed(check: Check) -> tuple[KafkaProperty, ...]:
    if check.get("kafka.auth.mode") == "SERVICE_ACCOUNT":
        return managed_properties(check.get("kafka.endpoint"), None, None)
    return managed_properties(*(check.get(f"kafka.{part}") for part in ("endpoint", "api.key", "api.secret")))


def check_kafka(check: Check) -> None:
    """Rules of Kafka's client, which files of every kind have."""
    key, secret = (check.has(f"kafka.api.{part}") for part in ("key", "secret"))
    if key != secret:
        check.fault("kafka.api.secret" if key else "kafka.api.key", "is missing: kafka.api.key and .secret go together")
    if check.get("kafka.auth.mode") == "SERVICE_ACCOUNT":
        check.warn("kafka.auth.mode", "SERVICE_ACCOUNT exists in Confluent Cloud only: the Kafka secret is used.")
    for name in list(check.given):
        if check.definitions.kafka_property(name) == FIRST_OFFSET:
            _first_offset(check, name)
    names = {java: name for name in check.given if (java := check.definitions.kafka_property(name))}
    properties, unknown = kafka_properties(check), {j for j, name in names.items() if check.given[name].value is None}
    for fault in faults(properties, unknown) + store_faults(properties, unknown):
        check.fault(names.get(fault.name, f"kafka.{fault.name}"), fault.what, fault.allowed)


def _first_offset(check: Check, name: str) -> None:
    value = check.given[name].value
    if value is None or str(value).strip().lower() in ("earliest", "latest"):
        return
    none = str(value).strip().lower() == "none"
    problem = "would leave a new sink nowhere to begin" if none else "is not one of the allowed values"
    check.fault(name, problem, ("earliest", "latest"))
