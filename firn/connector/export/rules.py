"""Rules over several parameters of an export, but for those of its sources (`sources`)."""

from __future__ import annotations

from firn.connector.check import Check
from firn.connector.parameter import ReadError
from firn.connector.readers import TOPIC
from firn.connector.rules import check_kafka, check_login, check_proxy, dead_letter_topic

_DLQ = "errors.deadletterqueue.topic.name"


def apply_rules(check: Check) -> None:
    """All of them; faults and warnings go into the check."""
    for name, parameter in check.definitions.parameters.items():
        if parameter.required and not check.has(name):
            check.fault(name, "is required")
    check_login(check)
    check_proxy(check)
    check_kafka(check)
    _errors(check)
    _polling(check)
    _task(check)
    _topics(check)


def _errors(check: Check) -> None:
    letters = check.get("errors.tolerance") == "all" or any(
        name.endswith(".action") and given.value == "dead letter" for name, given in check.given.items()
    )
    topic = dead_letter_topic(check)
    if topic and not letters:
        check.warn(_DLQ, "has no effect without errors.tolerance=all or a check whose action is dead letter.")
    if letters and not topic:
        check.fault(_DLQ, "is required: without a topic the rows that are left out would be lost")
    if check.get("errors.deadletterqueue.topic.replication.factor") == 0:
        check.fault("errors.deadletterqueue.topic.replication.factor", "would be a topic without replicas")
    if topic:
        try:
            TOPIC.parse(topic)
        except ReadError as error:
            check.fault(_DLQ, f"{error.problem}, with the export's name in it")


def _polling(check: Check) -> None:
    shortest, longest = (check.get(f"firn.export.poll.{end}.ms") for end in ("shortest", "longest"))
    if shortest > longest:
        check.fault("firn.export.poll.shortest.ms", "is above firn.export.poll.longest.ms")
    if not check.get("firn.export.poll.adaptive"):
        for end in ("shortest", "longest"):
            if check.has(f"firn.export.poll.{end}.ms"):
                check.warn(f"firn.export.poll.{end}.ms", "has no effect without firn.export.poll.adaptive=true.")


def _task(check: Check) -> None:
    if check.has("firn.export.task.warehouse") and not check.has("firn.export.task.schedule"):
        check.warn("firn.export.task.warehouse", "has no effect without firn.export.task.schedule.")


def _topics(check: Check) -> None:
    for name in ("partitions", "replication.factor"):
        if check.get(f"topic.creation.default.{name}") == 0:
            check.fault(f"topic.creation.default.{name}", "would be a topic without partitions or replicas", ("-1",))
