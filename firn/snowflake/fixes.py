"""What to do about Snowflake's refusals: the GRANT or CREATE that a message and its statement ask for.

Not for deciding what an error is (`firn.snowflake.faults`). Snowflake names the object it refuses and not the
privilege, so that comes from the statement's first words
(https://docs.snowflake.com/en/user-guide/security-access-control-privileges).
"""

from __future__ import annotations

import re

_REFUSED = re.compile(r"Insufficient privileges to operate on (?P<kind>[a-z ]+?) '(?P<name>[^']+)'")
_MISSING = re.compile(r"(?P<kind>[A-Z][a-z]+) '(?P<name>[^']+)' does not exist or not authorized")
_CREATE = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:TRANSIENT\s+)?(?P<kind>TABLE|VIEW|STAGE|SCHEMA|FILE\s+FORMAT)\s+"
    r"(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>(?:\"[^\"]+\"|[\w$]+)(?:\.(?:\"[^\"]+\"|[\w$]+))*)",
    re.IGNORECASE,
)
# First word of a statement -> the privilege it wants on a table or a stage.
_ON_TABLE = {
    "SELECT": "SELECT", "WITH": "SELECT", "INSERT": "INSERT", "COPY": "INSERT", "UPDATE": "UPDATE", "DELETE": "DELETE",
    "TRUNCATE": "TRUNCATE", "MERGE": "SELECT, INSERT, UPDATE, DELETE",
}  # fmt: skip
_ON_STAGE = {"PUT": "WRITE", "REMOVE": "WRITE", "RM": "WRITE", "LIST": "READ", "LS": "READ", "COPY": "READ"}
_SHOW = "SHOW GRANTS TO ROLE {role};"


def grant_for(text: str, sql: str, role: str) -> str:
    """The next step after "Insufficient privileges": the GRANT statement where it can be told."""
    to = role or "<role>"
    look = _SHOW.format(role=to)
    found = _REFUSED.search(text)
    verb = (sql.split() or [""])[0].upper()
    if found is None:
        return f"See what the role holds: {look}"
    kind, name = found["kind"].upper(), found["name"]
    if (created := _CREATE.match(sql.strip())) and kind in {"SCHEMA", "DATABASE"}:
        privilege = f"CREATE {' '.join(created['kind'].upper().split())}"
        name = created["name"].rpartition(".")[0] or name
    elif verb in {"ALTER", "DROP", "COMMENT", "CREATE"}:
        privilege = "OWNERSHIP"
    else:
        privilege = (_ON_STAGE if kind == "STAGE" else _ON_TABLE).get(verb, "")
    if not privilege:
        return f"Grant what the statement needs on {kind.lower()} {name}; see what the role holds: {look}"
    return f"GRANT {privilege} ON {kind} {_as_written(name, sql)} TO ROLE {to}; see what it holds: {look}"


def missing_object(text: str) -> tuple[str, str]:
    """(kind of object as a person says it, its name) of "does not exist or not authorized"; empty where untold."""
    found = _MISSING.search(text)
    if found is None:
        return "", ""
    kind = found["kind"]
    return ("Table" if kind in {"Object", "View"} else kind), found["name"]


def step_for_missing(kind: str, name: str, sql: str, role: str) -> str:
    """How a missing object comes to be, or to be seen."""
    to, full = role or "<role>", _as_written(name, sql)
    if kind == "Table":
        return (
            f"If it is a sink's: auto.create.tables=true makes it, or CREATE TABLE {full} (RECORD_METADATA VARIANT, "
            f"RECORD_CONTENT VARIANT); if it exists: GRANT SELECT, INSERT ON TABLE {full} TO ROLE {to}; and USAGE on "
            "its database and schema."
        )
    if kind == "Stage":
        return (
            "If it was dropped, start the sink again: it makes its stage anew. If it exists: GRANT READ, WRITE ON "
            f"STAGE {full} TO ROLE {to}; and USAGE on its database and schema."
        )
    if kind in {"Schema", "Database"}:
        upper = kind.upper()
        return f"CREATE {upper} {full}; if it exists: GRANT USAGE ON {upper} {full} TO ROLE {to};"
    if kind in {"Role", "User", "Warehouse"}:
        return f"Correct the name (SHOW {kind.upper()}S lists those there are), or CREATE {kind.upper()} {full};"
    return f"Create the object, or grant the role access to it: {_SHOW.format(role=to)}"


def step_for_unseen(sql: str, role: str) -> str:
    """After CREATE of what is there already, and hidden from the role."""
    created = _CREATE.match(sql.strip())
    kind, name = (created["kind"].upper(), created["name"]) if created else ("TABLE", "<name>")
    wanted = {"TABLE": "SELECT, INSERT, UPDATE", "STAGE": "READ, WRITE", "VIEW": "SELECT"}.get(kind, "USAGE")
    return f"Somebody else made it: GRANT {wanted} ON {kind} {name} TO ROLE {role or '<role>'}; or have it dropped."


def _as_written(name: str, sql: str) -> str:
    """The name with database and schema, where the statement has it so: Snowflake shortens it in some messages."""
    last = re.escape(name.rpartition(".")[2])
    part = r"(?:\"[^\"]+\"|[\w$]+)\."
    found = re.search(rf"(?<![\w$.\"])({part}{part}\"?{last}\"?)(?![\w$])", sql, re.IGNORECASE)
    if found and "." not in name:
        return found[1]
    return name
