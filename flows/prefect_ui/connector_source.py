"""Where a form's connector comes from: a file, JSON in the form, an address in S3, or a variable of Prefect.

Not for what it means (`firn.connector`). A text that names a file that exists is that file.
"""

from __future__ import annotations

import json
from pathlib import Path

from prefect.variables import Variable

from firn.connector.overrides import inline_file
from firn.object_store import SCHEME, read_text
from firn.settings import Settings


def connector_file(given: str | Path, settings: Settings) -> Path:
    """The connector as a file on this machine. Raises ConfigError, and those of AWS for an address in S3."""
    text = str(given).strip()
    if text.startswith("{"):
        return inline_file(settings.home, text, where="the parameter config")
    if text.startswith(SCHEME):
        return inline_file(settings.home, read_text(settings, text), where=text)
    if Path(text).exists() or "/" in text or "." in text:
        return Path(text)
    value = Variable.get(text)
    if value is None:
        return Path(text)
    return inline_file(
        settings.home, value if isinstance(value, str) else json.dumps(value), where=f"the Prefect variable {text}"
    )
