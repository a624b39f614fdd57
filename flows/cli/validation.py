"""What `validate` of every family prints: faults, warnings, values in effect, live checks; and how it ends.

Not for what is checked (`firn.connector`, `firn.operations.validation`).
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from firn.errors import ConfigError, TerminalError
from flows.cli.console import print_entries, print_lines, print_rows, say

if TYPE_CHECKING:
    from firn.connector.outcome import Checked
    from firn.operations.validation.live_check import LiveCheck

_EFFECTIVE = ("name", "value", "source", "effect", "note")


@dataclass(frozen=True)
class Outcome:
    """What was found; `live` is None where nobody asked, or where faults leave nothing to look for."""

    checked: Checked
    live: list[LiveCheck] | None

    @property
    def failures(self) -> int:
        """How many live checks failed."""
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
        """Faults as rows."""
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
        """Warnings as rows."""
        return [asdict(warned) for warned in self.checked.warnings]

    def effective(self) -> list[dict[str, Any]]:
        """Values in effect as rows."""
        return [
            dict(zip(_EFFECTIVE, (e.name, e.value_shown, e.source, str(e.effect), e.note), strict=True))
            for e in self.checked.effective
        ]


EffectiveOption = Annotated[
    bool, typer.Option("--effective", help="Also print every value in effect, with its source.")
]


def show(outcome: Outcome, file: Path, *, kind: str, page: str, effective: bool, as_json: bool) -> None:
    """Print the outcome. page: where the parameters are described; effective: print the values in effect too.

    Raises ConfigError for faults, TerminalError for live checks that failed.
    """
    if as_json:
        document = orjson.dumps(outcome.document(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        sys.stdout.buffer.write(document)
        sys.stdout.buffer.flush()
    else:
        _print(outcome, effective)
    _judge(outcome, file, kind, page)


def _print(outcome: Outcome, effective: bool) -> None:
    """What is wrong first, what holds last."""
    if faults := outcome.faults():
        print_entries("Faults", [(f"{fault['name']}={fault['value'] or ''}", _fault_text(fault)) for fault in faults])
    if warnings := outcome.warnings():
        print_entries("Warnings", [(warned["name"], warned["reason"]) for warned in warnings])
    if outcome.live is not None:
        from firn.operations.validation.live_check import COLUMNS

        checks = sorted(outcome.live, key=lambda check: check.state != "failed")
        print_rows([check.row() for check in checks], columns=COLUMNS, title="Live checks")
    if effective:
        print_lines(
            "Values in effect",
            [f"{each['name']}={each['value'] or ''} ({_origin(each)})" for each in outcome.effective()],
        )


def _fault_text(fault: dict[str, Any]) -> str:
    allowed = f"; allowed: {', '.join(fault['allowed'])}" if fault["allowed"] else ""
    nearest = f"; the nearest name is {fault['nearest']}" if fault["nearest"] else ""
    return f"{fault['problem']}{allowed}{nearest}"


def _origin(effective: dict[str, Any]) -> str:
    effect = "" if effective["effect"] == "honoured" else f", {effective['effect']}"
    note = f": {effective['note']}" if effective["note"] else ""
    return f"{effective['source']}{effect}{note}"


def _judge(outcome: Outcome, file: Path, kind: str, page: str) -> None:
    """One line for a person; raises the error that gives the exit code."""
    faults, failures = len(outcome.checked.faults), outcome.failures
    if faults:
        raise ConfigError(
            f"The {kind}'s configuration has {faults} fault{'' if faults == 1 else 's'}.",
            where=str(file),
            next_step=f"Correct the parameters listed above; {page} describes all of them.",
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
