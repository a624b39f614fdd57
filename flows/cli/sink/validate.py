"""`firn sink validate`: what is wrong with a connector file, what takes effect; with --live what is wrong outside."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from firn.errors import ConfigError, TerminalError, TransientError
from flows.cli.console import print_rows, say
from flows.cli.sink.arguments import ConfigArgument

if TYPE_CHECKING:
    from firn.connector.outcome import CheckedConfig
    from firn.operations.validation.live_check import LiveCheck

_FAULTS = ("name", "value", "problem", "allowed", "nearest")
_WARNINGS = ("name", "reason")
_WIDTHS = dict.fromkeys(("value", "problem", "allowed", "reason", "note", "found", "next_step"), 60)
_EFFECTIVE = ("name", "value", "source", "effect", "note")


@dataclass(frozen=True)
class _Outcome:
    """What was found; `live` is None where nobody asked, or where faults leave nothing to look for."""

    checked: CheckedConfig
    live: list[LiveCheck] | None

    @property
    def failures(self) -> int:
        return sum(check.state == "failed" for check in self.live or ())

    def document(self) -> dict[str, Any]:
        """As one JSON document, with the names and order of the tables' columns."""
        return {
            "valid": not self.checked.faults,
            "faults": self.faults(),
            "warnings": self.warnings(),
            "effective": self.effective(),
            "live": None if self.live is None else [check.row() for check in self.live],
        }

    def faults(self) -> list[dict[str, Any]]:
        return [
            {
                "name": f.name,
                "value": f.value_shown,
                "problem": f.problem,
                "allowed": list(f.allowed),
                "nearest": f.nearest,
            }
            for f in self.checked.faults
        ]

    def warnings(self) -> list[dict[str, Any]]:
        return [asdict(warned) for warned in self.checked.warnings]

    def effective(self) -> list[dict[str, Any]]:
        return [
            dict(zip(_EFFECTIVE, (e.name, e.value_shown, e.source, str(e.effect), e.note), strict=True))
            for e in self.checked.effective
        ]


def validate(
    config: ConfigArgument,
    live: Annotated[
        bool, typer.Option("--live", help="Also check secrets, network, TLS, logins, privileges, topics and subjects.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
) -> None:
    """Check a connector file, and show the values in effect.

    It lists all faults at once. Nothing is started or changed.
    """
    outcome = _look(config, live=live)
    if as_json:
        sys.stdout.buffer.write(
            orjson.dumps(outcome.document(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        )
        sys.stdout.buffer.flush()
    else:
        _print(outcome)
    _judge(outcome, config)


def _look(file: Path, *, live: bool) -> _Outcome:
    from firn.connector.file import read_connector_file
    from firn.connector.parse import check_sink_config
    from firn.connector.references import Resolver
    from firn.operations.validation.live_check import failed, impatient
    from firn.secrets import secret_reader
    from firn.settings import load_settings

    raw, where = read_connector_file(file), str(file)
    if not live:
        return _Outcome(check_sink_config(raw, where=where), None)
    settings = impatient(load_settings())
    try:
        checked = check_sink_config(raw, where=where, resolver=Resolver(secret_reader(settings)))
    except TransientError as error:
        return _Outcome(check_sink_config(raw, where=where), [failed("secret references", error)])
    if checked.config is None:
        return _Outcome(checked, None)

    from spark_jobs.sink.validation import live_checks

    return _Outcome(checked, live_checks(checked.config, settings))


def _print(outcome: _Outcome) -> None:
    checked = outcome.checked
    if checked.faults:
        rows = [row | {"allowed": ", ".join(row["allowed"])} for row in outcome.faults()]
        print_rows(rows, columns=_FAULTS, title="Faults", widths=_WIDTHS)
    if checked.warnings:
        print_rows(outcome.warnings(), columns=_WARNINGS, title="Warnings", widths=_WIDTHS)
    print_rows(outcome.effective(), columns=_EFFECTIVE, title="Effective values", widths=_WIDTHS)
    if outcome.live is not None:
        from firn.operations.validation.live_check import COLUMNS

        print_rows([check.row() for check in outcome.live], columns=COLUMNS, title="Live checks", widths=_WIDTHS)


def _judge(outcome: _Outcome, file: Path) -> None:
    """One line for a person; raises the error that gives the exit code."""
    faults, failures = len(outcome.checked.faults), outcome.failures
    if faults:
        raise ConfigError(
            f"The sink's configuration has {faults} fault{'' if faults == 1 else 's'}.",
            where=str(file),
            next_step="Correct the parameters listed above; docs/configuration.md describes all of them.",
        )
    if failures:
        raise TerminalError(
            f"{failures} live check{'' if failures == 1 else 's'} failed.",
            where=str(file),
            next_step="Follow the next_step of each failed check, then validate again.",
        )
    if outcome.checked.unchecked:
        say(f"Not checked without --live: {', '.join(outcome.checked.unchecked)}.")
    say("The configuration is valid." + (" All live checks passed." if outcome.live is not None else ""))
