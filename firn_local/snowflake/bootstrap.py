"""The SQL file of the first users, roles and grants, and mending what older servers left without an owner.

A statement of the file is run once per data directory, so a newer file adds what is new in it and a grant that somebody
revoked since stays revoked. Not for changes while the server runs.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from firn_local.snowflake.engine.account import Account
from firn_local.snowflake.instance import LocalSnowflake
from firn_local.snowflake.privileges.role_grants import ADMIN
from firn_local.snowflake.sql.tokenizer import split_statements

log = logging.getLogger("firn_local.snowflake")

_OBJECTS = """
SELECT 'DATABASE', database_name FROM duckdb_databases() WHERE NOT internal
UNION ALL SELECT 'SCHEMA', database_name || '.' || schema_name FROM duckdb_schemas() WHERE NOT internal
UNION ALL SELECT 'TABLE', database_name || '.' || schema_name || '.' || table_name FROM duckdb_tables()
UNION ALL SELECT 'VIEW', database_name || '.' || schema_name || '.' || view_name FROM duckdb_views() WHERE NOT internal
UNION ALL SELECT 'STAGE', database_name || '.' || schema_name || '.' || name
  FROM _fs_global._fs_information_schema._fs_stages
"""


def bootstrap(snowflake: LocalSnowflake, sql_file: Path | None) -> None:
    """Run, with ACCOUNTADMIN's rights, those statements of `sql_file` that this data directory has not seen."""
    give_owners(snowflake.account)
    if sql_file is None:
        return
    marker = snowflake.account.store.data_dir / "bootstrapped"
    seen = marker.read_text().split() if marker.exists() else []
    session = snowflake.session("SNOWFLAKE", ADMIN)
    for statement in split_statements(sql_file.read_text()):
        digest = hashlib.sha256(statement.encode()).hexdigest()
        if digest not in seen:
            snowflake.run(session, statement)
            seen.append(digest)
    session.close()
    marker.write_text("\n".join(seen) + "\n")
    log.info("bootstrap: %d statements", len(seen))


def give_owners(account: Account) -> None:
    """Objects made before owners were kept belong to the first role that may make such objects, else to ACCOUNTADMIN.

    Without this nobody but an administrator could use them any more.
    """
    now = account.role_grants.now()
    for kind, name in account.store.query(_OBJECTS):
        if _is_internal(name) or now.owner(kind, name) is not None:
            continue
        parent_kind = "DATABASE" if kind == "SCHEMA" else "SCHEMA"
        made_by = now.granted(parent_kind, name.rpartition(".")[0])
        makers = [grant.grantee for grant in made_by if grant.privilege == f"CREATE {kind}"]
        owner = makers[0] if makers and kind not in {"DATABASE", "SCHEMA"} else ADMIN
        account.grants.own(kind, name, owner)
        log.info("%s %s had no owner: %s", kind.lower(), name, owner)


def _is_internal(name: str) -> bool:
    database, _, rest = name.partition(".")
    return database in {"memory", "_fs_global", "temp", "system"} or rest.split(".")[0] in {
        "main",
        "_fs_information_schema",
    }
