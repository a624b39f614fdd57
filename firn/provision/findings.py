"""What a provisioning step reports, and how far it may go. Not for how a step works."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

State = Literal[
    "made", "found", "would make", "would change", "would fail", "failed", "changed", "ok", "missing", "warning"
]
COLUMNS = ("kind", "name", "state", "detail")


@dataclass(frozen=True)
class Finding:
    """What one step made, found, or would do; `detail` is for a person."""

    kind: str
    name: str
    state: State
    detail: str = ""

    def row(self) -> dict[str, str]:
        """As a table row."""
        return asdict(self)


@dataclass(frozen=True)
class Mode:
    """How far a run may go: `dry_run` makes nothing; `apply` also changes what exists with other values."""

    dry_run: bool = False
    apply: bool = False

    @property
    def writes(self) -> bool:
        """Whether an existing thing with other values is changed."""
        return self.apply and not self.dry_run

    def change(self, kind: str, name: str, detail: str) -> Finding:
        """The finding for something that exists with other values."""
        if self.writes:
            return Finding(kind, name, "changed", detail)
        return Finding(
            kind, name, "would change", detail if self.apply else f"{detail} (left alone; --apply changes it)"
        )


CAUTIOUS = Mode()
"""Makes what is absent, changes nothing that exists."""
