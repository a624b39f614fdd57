"""What the official connector 2.5.0 really produces, from tests/vectors (see docs/compatibility.md for differences)."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "vectors"


def vectors(name: str) -> Any:
    """The document `name`.json; numbers with a fraction keep every digit."""
    return exact((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def exact(text: str) -> Any:
    """JSON text with numbers that keep every digit."""
    return json.loads(text, parse_float=Decimal)
