"""A sink's configuration: a Kafka Connect connector, checked as a whole and parsed once into an immutable value.

Every fault is reported at once. The parameters are those of `firn.connector.parameters`; the outcome is
`firn.connector.config.SinkConfig`, below which there are no string keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from firn.connector.build import build
from firn.connector.check import read_all
from firn.connector.config import SinkConfig
from firn.connector.conversion import convert
from firn.connector.effective import effective_values
from firn.connector.file import read_connector_file
from firn.connector.outcome import Check, CheckedConfig, Effective, Fault, Warned
from firn.connector.references import Resolver
from firn.connector.rules import apply_rules
from firn.redaction import shown

_Line = TypeVar("_Line", Fault, Warned, Effective)


def load_sink_config(path: Path, resolver: Resolver | None = None) -> SinkConfig:
    """Read and parse a connector file. Raises ConfigError that lists every fault, TransientError from the resolver."""
    return parse_sink_config(read_connector_file(path), where=str(path), resolver=resolver)


def parse_sink_config(raw: Mapping[str, str], *, where: str, resolver: Resolver | None = None) -> SinkConfig:
    """Parse flat parameters. Raises ConfigError that lists every fault, TransientError from the resolver."""
    return check_sink_config(raw, where=where, resolver=resolver).require()


def check_sink_config(raw: Mapping[str, str], *, where: str, resolver: Resolver | None = None) -> CheckedConfig:
    """Check flat parameters as a whole; faults are part of the answer.

    Without a resolver that asks Secrets Manager its references count as given and stay unchecked.
    """
    check = Check()
    read_all(check, {str(name): str(value) for name, value in raw.items()}, resolver or Resolver())
    apply_rules(check)
    value, key = convert(check)
    config = None if check.faults or check.unchecked else build(check, value, key)
    faulty = {fault.name for fault in check.faults}
    return CheckedConfig(
        where=where,
        faults=tuple(map(_named, check.faults)),
        # What is wrong is not also without effect.
        warnings=tuple(_named(warned) for warned in check.warnings if warned.name not in faulty),
        effective=tuple(map(_named, effective_values(check, value, key))),
        pending=tuple(check.pending),
        unchecked=tuple(check.unchecked),
        config=config,
    )


def _named(line: _Line) -> _Line:
    """A line of the outcome under a name that can be shown: names are the file's, too."""
    return replace(line, name=shown(line.name))
