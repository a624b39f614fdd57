"""Provisioning makes what is absent and leaves alone what exists, unless told to apply."""

from dataclasses import replace
from uuid import uuid4

import pytest

from firn.errors import ConfigError
from firn.kafka.client import client_from_settings
from firn.kafka.cluster import admin_client, find_topics
from firn.produce.run import order_schema
from firn.provision.findings import Mode
from firn.provision.subject import ensure_subject
from firn.provision.topic import TopicSpec, ensure_topic, topic_configs
from firn.registry.faults import IncompatibleSchemaError
from firn.registry.login import login_from_secret, registry_client
from firn.secrets import RegistrySecret, read_secret

pytestmark = pytest.mark.stack
RUN = uuid4().hex[:8]
"""Part of every name, so that a stack may serve more than one test run."""
SLIP = '"type": "long",\n      "logicalType": "timestamp-millis"'


@pytest.fixture
def admin(stack):
    return admin_client(client_from_settings(stack.settings))


@pytest.fixture
def registry(stack):
    return registry_client(
        login_from_secret(read_secret(stack.settings, stack.settings.registry_secret_id, RegistrySecret))
    )


def spec(name):
    return TopicSpec(name, 2, -1, 604_800_000, "delete")


def states(findings):
    return [finding.state for finding in findings]


def test_a_topic_is_made_then_found(admin):
    assert states(ensure_topic(admin, spec(f"prov-made-{RUN}"))) == ["made"]
    assert find_topics(admin, [f"prov-made-{RUN}"])[f"prov-made-{RUN}"].partitions == 2
    configs = topic_configs(admin, f"prov-made-{RUN}")
    assert (configs["retention.ms"], configs["cleanup.policy"]) == ("604800000", "delete")
    assert states(ensure_topic(admin, spec(f"prov-made-{RUN}"))) == ["found"]


def test_a_dry_run_makes_nothing(admin, registry):
    assert states(ensure_topic(admin, spec(f"prov-dry-{RUN}"), Mode(dry_run=True))) == ["would make"]
    assert find_topics(admin, [f"prov-dry-{RUN}"]) == {}
    for _ in range(2):
        found = ensure_subject(registry, f"prov-dry-{RUN}-value", order_schema(), "BACKWARD", Mode(dry_run=True))
        assert states(found) == ["would make", "would make"]


def test_a_topic_with_other_values_changes_only_when_told_to(admin):
    ensure_topic(admin, spec(f"prov-differs-{RUN}"))
    wanted = replace(spec(f"prov-differs-{RUN}"), partitions=3, retention_ms=1_000)
    for mode in (Mode(), Mode(dry_run=True, apply=True)):
        assert states(ensure_topic(admin, wanted, mode)) == ["found", "would change", "would change"]
        assert topic_configs(admin, f"prov-differs-{RUN}")["retention.ms"] == "604800000"
        assert find_topics(admin, [f"prov-differs-{RUN}"])[f"prov-differs-{RUN}"].partitions == 2
    assert states(ensure_topic(admin, wanted, Mode(apply=True))) == ["found", "changed", "changed"]
    assert states(ensure_topic(admin, wanted)) == ["found"]


def test_partitions_never_shrink(admin):
    ensure_topic(admin, spec(f"prov-shrink-{RUN}"))
    found = ensure_topic(admin, replace(spec(f"prov-shrink-{RUN}"), partitions=1), Mode(apply=True))
    assert states(found) == ["found", "warning"]
    assert find_topics(admin, [f"prov-shrink-{RUN}"])[f"prov-shrink-{RUN}"].partitions == 2


def test_what_the_cluster_cannot_do_is_an_error_with_its_reason(admin):
    with pytest.raises(ConfigError, match="replication factor"):
        ensure_topic(admin, replace(spec(f"prov-replicas-{RUN}"), replication_factor=3))
    with pytest.raises(ConfigError, match="Invalid topic"):
        ensure_topic(admin, spec("not a topic"))


def test_a_subject_is_made_then_found_and_keeps_its_mode(registry):
    assert states(ensure_subject(registry, f"prov-{RUN}-value", order_schema(), "BACKWARD")) == ["made", "made"]
    assert states(ensure_subject(registry, f"prov-{RUN}-value", order_schema(), "BACKWARD")) == ["found", "found"]
    assert states(ensure_subject(registry, f"prov-{RUN}-value", order_schema(), "FULL")) == ["found", "would change"]
    assert states(ensure_subject(registry, f"prov-{RUN}-value", order_schema(), "BACKWARD")) == ["found", "found"]
    assert (
        states(ensure_subject(registry, f"prov-{RUN}-value", order_schema(), "FULL", Mode(apply=True)))[1] == "changed"
    )


def test_a_schema_with_the_slip_registers_as_given_with_a_warning(registry):
    begin = order_schema().index('"type": {\n        "type": "long"')
    slip = order_schema()[:begin] + SLIP + order_schema()[order_schema().index("}", begin) + 1 :]
    findings = ensure_subject(registry, f"prov-slip-{RUN}-value", slip, "NONE")
    assert states(findings) == ["made", "warning", "made"]
    assert "created_at" in findings[1].detail


def test_an_incompatible_schema_is_refused_and_a_dry_run_says_so(registry):
    ensure_subject(registry, f"prov-strict-{RUN}-value", order_schema(), "BACKWARD")
    other = order_schema().replace('"long"', '"string"', 1)
    found = ensure_subject(registry, f"prov-strict-{RUN}-value", other, "BACKWARD", Mode(dry_run=True))
    assert states(found)[0] == "would fail"
    with pytest.raises(IncompatibleSchemaError, match="/fields/0/type"):
        ensure_subject(registry, f"prov-strict-{RUN}-value", other, "BACKWARD")
