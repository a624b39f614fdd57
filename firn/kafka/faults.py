"""Why a Kafka client cannot connect, as an error a person can act on. Not for what a broker says about one record.

librdkafka reports why it cannot connect only to its error callback; the call itself just times out. `ConnectionFaults`
keeps what the callback said, so that the error names the real cause. Codes: librdkafka's rd_kafka_resp_err_t.
"""

from __future__ import annotations

import logging
import re

from confluent_kafka import KafkaError

from firn.errors import AuthenticationError, ConfigError, FirnError, PrivilegeError, TransientError

log = logging.getLogger("firn.kafka")

_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_REFUSED = {
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_RECORD,
    KafkaError.POLICY_VIOLATION,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
}

# TLS alerts by which a broker refuses the client's certificate, or asks for one (RFC 8446, section 6).
_CERTIFICATE_ALERT = re.compile(r"SSL alert number (4[1-689]|116)\b")

_BROKEN_OFF = re.compile(r"Broker transport failure|Timed out|[Dd]isconnected")


class ConnectionFaults:
    """What the clients' error callback reported: the most specific wins (refused login, TLS, name, connection)."""

    _RANK = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE, KafkaError._TRANSPORT)

    def __init__(self, brokers: str) -> None:
        self.brokers = brokers
        self._heard: dict[int, str] = {}

    def __call__(self, error: KafkaError) -> None:
        """The `error_cb` of a client."""
        self._heard.setdefault(_cause(error), error.str())
        log.info("Kafka client: %s", error.str())

    def clear(self) -> None:
        """Forget: a request was answered, so earlier faults no longer explains anything."""
        self._heard.clear()

    def terminal(self) -> FirnError | None:
        """A cause that waiting does not mend, or None."""
        for code in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            if (text := self._heard.get(code)) is not None:
                return connection_error(code, text, self.brokers)
        return None

    def explain(self, error: KafkaError, doing: str) -> FirnError:
        """`error` of a request as an error for a person; a time-out becomes what the callback reported before it."""
        if error.code() in _DENIED:
            return PrivilegeError(
                f"Kafka does not allow this: {doing} ({error.str()}).",
                where=f"brokers {self.brokers}",
                next_step="Grant the API key this right (ACLs of the topic, group or cluster).",
            )
        if error.code() in _REFUSED:
            return ConfigError(
                f"Kafka refuses to {doing}: {error.str()}",
                where=f"brokers {self.brokers}",
                next_step="Correct what was asked for: the topic's name, partitions, replication factor or settings.",
            )
        for code in self._RANK:
            if (text := self._heard.get(code)) is not None:
                return connection_error(code, text, self.brokers)
        return connection_error(error.code(), f"{doing}: {error.str()}", self.brokers)


def _cause(error: KafkaError) -> int:
    """The code that says what to do: librdkafka files a refused certificate and an absent token endpoint elsewhere."""
    code, text = error.code(), error.str()
    if code in (KafkaError._TRANSPORT, KafkaError._SSL) and _CERTIFICATE_ALERT.search(text):
        return int(KafkaError._AUTHENTICATION)
    # A connection that ends or goes silent in the middle of a login was not refused.
    if code == KafkaError._AUTHENTICATION and _BROKEN_OFF.search(text):
        return int(KafkaError._TRANSPORT)
    # An OAuth server that refuses answers {"error": ...} (RFC 6749, section 5.2); anything else may pass.
    if code == KafkaError._AUTHENTICATION and "OAUTHBEARER token" in text and '"error"' not in text:
        return int(KafkaError._TRANSPORT)
    return int(code)


def refused_configuration(error: KafkaError, brokers: str) -> ConfigError:
    """What librdkafka says when a client is made: a file or value that it cannot use."""
    return ConfigError(
        f"The Kafka client refuses its configuration: {error.str().strip()}.",
        where=f"brokers {brokers}",
        next_step="Correct the connector's kafka.* properties, or the Kafka secret and the FIRN_KAFKA_* settings.",
    )


def connection_error(code: int, text: str, brokers: str) -> FirnError:
    """A librdkafka error code and its text as the error of its kind; without a better idea it is transient."""
    where = f"brokers {brokers}"
    if code == KafkaError._AUTHENTICATION and _CERTIFICATE_ALERT.search(text):
        return AuthenticationError(
            f"Kafka refused the client's certificate: {text}.",
            where=where,
            next_step="Name a certificate that the brokers trust, and its key, with the connector's "
            "kafka.ssl.keystore.*; without one, use a listener that does not ask for it.",
        )
    if code == KafkaError._AUTHENTICATION:
        return AuthenticationError(
            f"Kafka refused the login: {text}.",
            where=where,
            next_step="Correct api_key and api_secret in the Kafka secret and FIRN_KAFKA_SASL_MECHANISM, or the "
            "connector's kafka.sasl.*.",
        )
    if code == KafkaError._SSL:
        return ConfigError(
            f"The TLS handshake with Kafka failed: {text}.",
            where=where,
            next_step="Name the CA of the brokers with FIRN_KAFKA_SSL_CA_LOCATION or the connector's "
            "kafka.ssl.truststore.*; check FIRN_KAFKA_SECURITY_PROTOCOL.",
        )
    return TransientError(
        f"Kafka does not answer: {text}.",
        where=where,
        next_step="Check the bootstrap servers (Kafka secret or connector), the network and the security protocol "
        "(FIRN_KAFKA_SECURITY_PROTOCOL or kafka.security.protocol); for the local stack see `firn status`.",
    )
