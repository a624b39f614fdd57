"""Names that no table can list: sources, checks, topic options and client properties, each by its family.

The clients of an export are producers first: `kafka.*`, then `producer.override.*`, which wins, set what all clients
have in common (brokers, login, TLS). Not for what the sources then are (`sources`).
"""

from __future__ import annotations

import re
from dataclasses import replace

from firn.connector import readers as r
from firn.connector.check import Definitions, client_property
from firn.connector.export import readers as x
from firn.connector.export.parameters import PARAMETERS, SOURCE_PARAMETERS
from firn.connector.parameter import Effect, Parameter, honoured
from firn.kafka.properties import Treatment, treatment
from firn.kafka.property_table import CONSUMER_ONLY, FIRST_OFFSET, GROUP, PRODUCER_ONLY

OWN = "firn.export."
_SOURCE = re.compile(r"firn\.export\.sources\.([A-Za-z_][A-Za-z0-9_$-]*)\.(.+)")
_CHECK = re.compile(r"firn\.export\.checks\.([A-Za-z_][A-Za-z0-9_-]*)\.(expression|action)")
_TOPIC_OPTION = re.compile(r"topic\.creation\.default\.([a-z][a-z.]*)")
_CHECK_READERS = {"expression": x.CONDITION, "action": r.one_of("stop", "dead letter", "warn")}
_TRANSACTIONS = "An export publishes in transactions that Firn sets up."
_NO_GROUP = "An export reads no topic but its markers, without a consumer group."


def check_option(name: str) -> tuple[str, str] | None:
    """(check, option) of `firn.export.checks.<check>.<option>`."""
    found = _CHECK.fullmatch(name)
    return (found[1], found[2]) if found else None


def topic_option(name: str) -> str | None:
    """The topic's option that `topic.creation.default.<option>` sets; None for any other name."""
    found = _TOPIC_OPTION.fullmatch(name)
    return found[1] if found and name not in PARAMETERS else None


def of_source(name: str) -> tuple[str, str] | None:
    """(source, parameter) of `firn.export.sources.<source>.<parameter>`; `firn.export.` may be left out behind it."""
    found = _SOURCE.fullmatch(name)
    if found is None:
        return None
    known = found[2] in SOURCE_PARAMETERS or check_option(found[2]) is not None
    return found[1], found[2] if known else OWN + found[2]


def _family(name: str) -> tuple[Parameter | None, str | None] | None:
    if source := of_source(name):
        return _source_parameter(name, *source)
    if option := check_option(name):
        return honoured(name, _CHECK_READERS[option[1]], "A quality check."), None
    if topic_option(name):
        return honoured(name, r.TEXT, "An option of the topics that are made."), None
    for prefix in ("kafka.", "producer.override.", "admin.override.", "consumer.override."):
        if name.startswith(prefix):
            return client_property(EXPORT, name, prefix, _treatment(name.removeprefix(prefix), prefix))
    return None


def _source_parameter(name: str, source: str, parameter: str) -> tuple[Parameter | None, str | None]:
    if option := check_option(parameter):
        return honoured(name, _CHECK_READERS[option[1]], "A quality check."), None
    known = SOURCE_PARAMETERS.get(parameter)
    if known is not None:
        return replace(known, name=name), None
    near = EXPORT.nearest(parameter.removeprefix(OWN)) or EXPORT.nearest(parameter)
    return None, f"firn.export.sources.{source}.{near}" if near in SOURCE_PARAMETERS else None


def _treatment(java: str, prefix: str) -> Treatment:
    if java in PRODUCER_ONLY:
        return Treatment(Effect.NO_EFFECT.value, _TRANSACTIONS)
    if java in CONSUMER_ONLY or java in (FIRST_OFFSET, GROUP):
        return Treatment(Effect.NO_EFFECT.value, _NO_GROUP)
    treated = treatment(java)
    if treated.kind == "honoured" and prefix in ("admin.override.", "consumer.override."):
        return replace(treated, kind="no effect", reason="All clients take kafka.* and producer.override.*.")
    return treated


EXPORT: Definitions = Definitions(PARAMETERS, _family, "producer.override.")
"""An export's parameters."""
