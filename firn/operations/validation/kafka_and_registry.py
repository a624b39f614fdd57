"""Live checks of Kafka and the schema registry, and where each client connects to. Each answers with `LiveCheck`s.

Not for Snowflake's objects and privileges (`snowflake`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

import certifi
from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]  # public all the same

from firn.channels.client import ADDRESS_NAMED_BY, service_address
from firn.errors import FirnError
from firn.kafka import cluster
from firn.kafka.client import KafkaClient
from firn.operations.validation.endpoints import Endpoint, Trust
from firn.operations.validation.live_check import LiveCheck, failed
from firn.provision.topic import topic_configs
from firn.registry.faults import registry_errors
from firn.registry.login import RegistryLogin, registry_client
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin

_DAY_MS = 86_400_000
_NO_TOPIC = "firn-asks-for-no-topic"


def broker_endpoints(client: KafkaClient) -> list[Endpoint]:
    """The bootstrap servers. The CA is the client's own, or the system's; librdkafka takes any form of certificate."""
    config = client.librdkafka()
    trust = None
    if config["security.protocol"].upper().endswith("SSL"):
        name_counts = config.get("ssl.endpoint.identification.algorithm") != "none"
        trust = Trust(config.get("ssl.ca.location"), config.get("ssl.ca.pem"), name_counts, strict=False)
    named_by = "kafka.bootstrap.servers, or bootstrap_servers in the Kafka secret"
    found = []
    for server in filter(None, map(str.strip, client.brokers.split(","))):
        parts = urlsplit(server if "://" in server else f"//{server}")
        host, port = parts.hostname or "", parts.port or 9092
        found.append(Endpoint(f"broker {host}:{port}", host, port, named_by, trust))
    return found


def registry_endpoints(login: RegistryLogin) -> list[Endpoint]:
    """The registry's urls."""
    trust = Trust(login.ca_location or os.environ.get("SSL_CERT_FILE") or certifi.where())
    named_by = "value.converter.schema.registry.url, or url in the registry secret"
    found = []
    for url in login.urls:
        parts = urlsplit(url)
        secure, host = parts.scheme == "https", parts.hostname or ""
        port = parts.port or (443 if secure else 80)
        name = f"registry {host}:{port}"
        found.append(Endpoint(name, host, port, named_by, trust if secure else None, login.proxy))
    return found


def snowflake_endpoint(login: SnowflakeLogin) -> Endpoint:
    """The account's host."""
    bundle = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or certifi.where()
    trust = Trust(bundle) if login.protocol == "https" else None
    named_by = "snowflake.url.name, FIRN_SNOWFLAKE_URL or url in the Snowflake secret"
    return Endpoint(f"snowflake {login.host}:{login.port}", login.host, login.port, named_by, trust, login.proxy)


def streaming_endpoint(login: SnowflakeLogin, settings: Settings) -> Endpoint:
    """Snowpipe Streaming's host, whose client trusts the system or one file. Raises ConfigError without TLS."""
    host, port = service_address(login, settings)
    bundle = settings.snowflake_ca_file or os.environ.get("SSL_CERT_FILE") or None
    trust = Trust(str(bundle) if bundle else None)
    return Endpoint(f"snowpipe streaming {host}:{port}", host, port, ADDRESS_NAMED_BY, trust, login.proxy)


def check_topics(client: KafkaClient, names: Iterable[str]) -> Iterator[LiveCheck]:
    """One check for each topic: partitions, records held, retention, and whether it may be read.

    Raises FirnError where the brokers do not answer or refuse the login.
    """
    admin = cluster.admin_client(client)
    wanted = list(names)
    # A request that hears at once of a refused login; topic_names would wait for its time-out.
    cluster.find_topics(admin, wanted or [_NO_TOPIC])
    yield LiveCheck("kafka login", "ok", f"brokers {client.brokers}")
    for name in wanted:
        try:
            yield _topic(admin, name)
        except FirnError as error:
            yield failed(f"topic {name}", error)


def check_dead_letters(client: KafkaClient, topic: str, replicas: int) -> Iterator[LiveCheck]:
    """Whether the dead-letter topic may be written to, or can be made with so many replicas (-1: the brokers' default).

    Raises FirnError where the brokers do not answer or refuse the login.
    """
    admin, subject = cluster.admin_client(client), f"dead-letter topic {topic}"
    if found := cluster.find_topics(admin, [topic]).get(topic):
        if _may(admin, topic, AclOperation.WRITE):
            yield LiveCheck(subject, "ok", f"exists, {found.partitions} partitions")
        else:
            step = "Allow operation WRITE on the topic (kafka-acls --add --operation Write --topic ...)."
            yield LiveCheck(subject, "failed", "exists; this login may describe the topic and not write to it", step)
        return
    brokers = _brokers(admin)
    if replicas > brokers:
        name = "errors.deadletterqueue.topic.replication.factor"
        step = f"Set {name} to {brokers} or less (-1: the brokers' default), or make the topic."
        yield LiveCheck(subject, "failed", f"cannot be made with {replicas} replicas by {brokers} brokers", step)
    else:
        yield LiveCheck(subject, "ok", "does not exist yet and will be made")


def _brokers(admin: cluster.KafkaAdmin) -> int:
    asked = {"cluster": admin.client.describe_cluster(request_timeout=cluster.REQUEST_SECONDS)}
    (answer,) = admin.wait(asked, "ask for the brokers").values()
    if isinstance(answer, KafkaError):
        raise admin.faults.explain(answer, "ask for the brokers")
    return len(answer.nodes)


def _topic(admin: cluster.KafkaAdmin, name: str) -> LiveCheck:
    info = cluster.describe_topics(admin, [name])[name]
    partitions = [(name, number) for number in range(info.partitions)]
    earliest, latest = cluster.offsets(admin, partitions, "earliest"), cluster.offsets(admin, partitions, "latest")
    held = sum(latest[where] - earliest[where] for where in partitions)
    found = f"{info.partitions} partitions, about {held} records held, {_retention(admin, name)}"
    if not _may(admin, name, AclOperation.READ):
        return LiveCheck(
            f"topic {name}",
            "failed",
            f"{found}; this login may describe the topic and not read it",
            "Allow operation READ on the topic (kafka-acls --add --operation Read --topic ...).",
        )
    return LiveCheck(f"topic {name}", "ok", found)


def _retention(admin: cluster.KafkaAdmin, name: str) -> str:
    try:
        configs = topic_configs(admin, name)
    except FirnError:
        return "its retention may not be read"
    kept = int(configs.get("retention.ms") or -1)
    policy = configs.get("cleanup.policy")
    if policy == "compact":
        return "compacted, kept for ever"
    return f"cleanup {policy}, " + ("kept for ever" if kept < 0 else f"kept {kept / _DAY_MS:g} days")


def _may(admin: cluster.KafkaAdmin, name: str, operation: AclOperation) -> bool:
    """Whether the cluster grants this on a topic; True where it does not say (brokers before 2.3)."""
    wanted = TopicCollection([name])
    futures = admin.client.describe_topics(
        wanted, include_authorized_operations=True, request_timeout=cluster.REQUEST_SECONDS
    )
    (answer,) = admin.wait(futures, f"ask for the rights on topic {name}").values()
    operations = None if isinstance(answer, KafkaError) else answer.authorized_operations
    return not operations or operation in operations or AclOperation.ALL in operations


def check_subjects(login: RegistryLogin, wanted: Mapping[str, str]) -> Iterator[LiveCheck]:
    """The registry's login, then each wanted subject (name -> what it is for). An absent one is a warning.

    Records carry the id of their schema, so a subject of another name does as well. Raises FirnError.
    """
    client = registry_client(login)
    with registry_errors(client, "list of subjects"):
        known = set(client.get_subjects())
    yield LiveCheck("registry login", "ok", f"{', '.join(login.urls)}: {len(known)} subjects")
    for subject, purpose in wanted.items():
        if subject in known:
            yield LiveCheck(f"subject {subject}", "ok", purpose)
        else:
            yield LiveCheck(
                f"subject {subject}",
                "warning",
                f"does not exist ({purpose})",
                "Fine where the producer names its subjects otherwise; else check that both use this registry.",
            )
