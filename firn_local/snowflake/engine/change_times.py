"""SYSTEM$LAST_CHANGE_COMMIT_TIME: a number that grows with each commit to a table; of a view, with every commit.

Source: https://docs.snowflake.com/en/sql-reference/functions/system_last_change_commit_time, which says that it is an
approximation, only good for telling whether something changed. Here it is the start of the server in nanoseconds and
the number of the commit, so it grows over a restart too.
"""

from __future__ import annotations

from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement
from firn_local.snowflake.privileges.requirements import Need
from firn_local.snowflake.sql.sql_errors import missing
from firn_local.snowflake.store import table_annotations

_KIND = """
SELECT 'TABLE' FROM duckdb_tables() WHERE database_name = $1 AND schema_name = $2 AND table_name = $3
UNION ALL SELECT 'VIEW' FROM duckdb_views() WHERE database_name = $1 AND schema_name = $2 AND view_name = $3
"""


def last_change(session: Session, name: str) -> int:
    """The token of a table or view. Raises where it does not exist, or the role may not read it."""
    full_name = session.full_name(name)
    place = table_annotations.place_of(full_name, frozenset())
    found = session.duck.execute(_KIND, list(place)).fetchone()
    if found is None:
        raise missing("Object", full_name)
    enforcement.demand(session, Need(("SELECT",), found[0], full_name))
    commits = session.account.commits
    number = commits.versions([full_name])[0] if found[0] == "TABLE" else commits.now()
    return session.account.started_ns + number
