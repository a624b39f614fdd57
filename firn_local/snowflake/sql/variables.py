"""Session variables, which fakesnow puts into a statement wherever their names stand: in quotes they are only text.

Source: https://docs.snowflake.com/en/sql-reference/session-variables; how texts, names and comments are written:
.../sql-reference/data-types-text and .../identifiers-syntax.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_TEXT = re.compile(
    r"""( '(?:[^'\\]|\\.|'')*' | "(?:[^"]|"")*" | \$\$.*?\$\$ | --[^\n]* | //[^\n]* | /\*.*?\*/ )""",
    re.VERBOSE | re.DOTALL,
)


def outside_of_texts(sql: str, replace: Callable[[str], str]) -> str:
    """The statement with each part changed by `replace` that is neither in quotes nor a comment."""
    parts = _TEXT.split(sql)
    return "".join(part if at % 2 else replace(part) for at, part in enumerate(parts))
