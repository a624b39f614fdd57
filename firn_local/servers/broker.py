"""Apache Kafka: broker and controller in one KRaft process, with a listener for passwords and one for certificates.

CLIENT is SASL_SSL with PLAIN and SCRAM, also for the broker itself; MUTUAL is TLS with a client's certificate. Whoever
has the api key or the certificate may do everything (no ACLs). Source: https://kafka.apache.org/documentation/#brokerconfigs.
"""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any, ClassVar

from firn.errors import TerminalError
from firn.secrets import KafkaSecret, read_secret
from firn_local.home import LOOPBACK, Home, write_private
from firn_local.process import Launch
from firn_local.servers.certificates import ensure_certificates
from firn_local.servers.server_contract import NotHealthy, Server, java, jvm_part

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_ADMIN_SECONDS = 15.0
# The least that Kafka takes: nobody attacks a password on loopback, and each client pays for the iterations.
_SCRAM_ITERATIONS = 4096

_LOG4J = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c: %m%n
logger.server.name = kafka.server
logger.server.level = INFO
logger.configuration.name = kafka.server.KafkaConfig
logger.configuration.level = WARN
"""


class Broker(Server):
    """The Kafka broker. Its credentials are those of the Kafka secret at the time it starts."""

    name: ClassVar[str] = "kafka"
    ports: ClassVar[tuple[str, ...]] = ("kafka", "kafka-controller", "kafka-mutual-tls")
    needs: ClassVar[tuple[str, ...]] = ("secrets-manager",)

    def launch(self, home: Home) -> Launch:
        """Write certificates and properties, format the log folder once, and say what to start."""
        settings = home.settings()
        secret = read_secret(settings, settings.kafka_secret_id, KafkaSecret)
        folder = home.data(self.name)
        ensure_certificates(folder)
        write_private(folder / "server.properties", _server_properties(home, secret))
        write_private(folder / "client.properties", _client_properties(home, secret))
        write_private(folder / "log4j2.properties", _LOG4J)
        _format_once(home)
        heap = ("-Xms128m", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=50")
        command = _java(home, *heap, "kafka.Kafka", str(folder / "server.properties"))
        return Launch(command, cwd=folder, env={"KAFKA_OPTS": None})

    def check(self, home: Home) -> None:
        """Ask for metadata as a client would: proves TLS, the credentials and the broker at once."""
        # Imported late: `firn --help` must not wait for librdkafka.
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            AdminClient(_client_configuration(home)).list_topics(timeout=3)
        except KafkaException as error:
            raise NotHealthy(f"no metadata from {home.address('kafka')}: {error.args[0].str()}") from error

    def settle(self, home: Home) -> None:
        """Let the api key in by SCRAM too, and nobody else; for PLAIN it stands in the broker's properties."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        configuration = _client_configuration(home)
        try:
            _grant_scram(AdminClient(configuration), configuration["sasl.username"], configuration["sasl.password"])
        except (KafkaException, TimeoutError) as error:
            raise TerminalError(
                f"Kafka does not take the api key for SCRAM: {error}",
                where=self.address(home),
                next_step="`firn up` again.",
            ) from error

    def address(self, home: Home) -> str:
        """The bootstrap server."""
        return home.address("kafka")

    def also(self, home: Home) -> str:
        """The bootstrap server for certificates."""
        if "kafka-mutual-tls" not in home.ports:
            return ""  # an older version started it
        return f"mutual TLS at {home.address('kafka-mutual-tls')} with {home.client_certificate}"


def _client_configuration(home: Home) -> dict[str, Any]:
    try:
        lines = (home.data(Broker.name) / "client.properties").read_text().splitlines()
    except OSError as error:
        raise NotHealthy("it was never configured") from error
    # Without a log level librdkafka prints each refused connection to stderr.
    return {**dict(line.split("=", 1) for line in lines), "log_level": 0}


def _grant_scram(admin: AdminClient, user: str, password: str) -> None:
    from confluent_kafka.admin import _scram as scram

    described: Any = admin.describe_user_scram_credentials()
    held = described.result(_ADMIN_SECONDS)
    changes: list[scram.UserScramCredentialAlteration] = [
        scram.UserScramCredentialUpsertion(
            user, scram.ScramCredentialInfo(mechanism, _SCRAM_ITERATIONS), password.encode()
        )
        for mechanism in (scram.ScramMechanism.SCRAM_SHA_256, scram.ScramMechanism.SCRAM_SHA_512)
    ]
    for former in held.keys() - {user}:
        infos = held[former].scram_credential_infos
        changes += [scram.UserScramCredentialDeletion(former, info.mechanism) for info in infos]
    # One request each: a request may name a user only once.
    for change in changes:
        for outcome in admin.alter_user_scram_credentials([change]).values():
            outcome.result(_ADMIN_SECONDS)


def _java(home: Home, *arguments: str) -> list[str]:
    log4j = home.data(Broker.name) / "log4j2.properties"
    return [java(), "-cp", f"{jvm_part('kafka')}/*", f"-Dlog4j2.configurationFile={log4j}", *arguments]


def _format_once(home: Home) -> None:
    """Give the log folder a cluster id; a folder that has one is left alone."""
    folder = home.data(Broker.name)
    if (folder / "logs" / "meta.properties").exists():
        return
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    # With "=": one id in 64 begins with a dash, and would be taken for an option.
    arguments = ("format", "--ignore-formatted", f"--cluster-id={cluster_id}", "-c", str(folder / "server.properties"))
    tool = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "kafka.tools.StorageTool", *arguments)
    done = subprocess.run(_java(home, *tool), capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise TerminalError(
            f"Kafka cannot format its storage: {(done.stderr or done.stdout).strip()[-500:]}",
            where=str(folder),
            next_step="`firn down --purge` empties it.",
        )


_SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def _server_properties(home: Home, secret: KafkaSecret) -> str:
    folder = home.data(Broker.name)
    listeners = f"CLIENT://{home.address('kafka')},MUTUAL://{home.address('kafka-mutual-tls')}"
    user, password = secret.api_key.get_secret_value(), secret.api_secret.get_secret_value()
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{_quoted(user)}" ' + (
        f'password="{_quoted(password)}" user_{user}="{_quoted(password)}";'
    )
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{home.address('kafka-controller')}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{listeners},CONTROLLER://{LOOPBACK}:{home.ports['kafka-controller']}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CLIENT:SASL_SSL,MUTUAL:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": login,
        "listener.name.client.scram-sha-256.sasl.jaas.config": _SCRAM_LOGIN,
        "listener.name.client.scram-sha-512.sasl.jaas.config": _SCRAM_LOGIN,
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": str(folder / "clients-ca.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(home.ca_file),
        "log.dirs": str(folder / "logs"),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        # One machine with few cores: the defaults are for many clients and disks.
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.dedupe.buffer.size": "16777216",
    }
    return "".join(f"{name}={_escaped(value)}\n" for name, value in lines.items())


def _client_properties(home: Home, secret: KafkaSecret) -> str:
    """What librdkafka needs to enter, for health checks that do not depend on Secrets Manager."""
    lines = {
        "bootstrap.servers": home.address("kafka"),
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": secret.api_key.get_secret_value(),
        "sasl.password": secret.api_secret.get_secret_value(),
        "ssl.ca.location": str(home.ca_file),
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _escaped(value: str) -> str:
    # Java's properties files read a backslash as an escape.
    return value.replace("\\", "\\\\")
