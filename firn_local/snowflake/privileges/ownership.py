"""Who owns what a CREATE made, and what else its role gets: future grants. Source: the GRANT OWNERSHIP page and
https://docs.snowflake.com/en/sql-reference/sql/grant-privilege (future grants).
"""

from __future__ import annotations

from sqlglot import exp

from firn_local.snowflake.privileges.grant_table import Grant
from firn_local.snowflake.privileges.role_grants import RoleGrants
from firn_local.snowflake.sql.full_names import around
from firn_local.snowflake.sql.statement import Statement

_OWNED = {"TABLE", "VIEW", "STAGE", "SCHEMA", "FILE FORMAT", "SEQUENCE", "FUNCTION"}


def record_change(grants: RoleGrants, role: str, statement: Statement) -> None:
    """After DDL: what was made belongs to `role`, and a renamed object keeps its grants."""
    change = statement.expression
    kind = str(change.args.get("kind"))
    if isinstance(change, exp.Create) and kind in _OWNED and not change.find(exp.TemporaryProperty):
        for name in statement.target_objects():
            forgets = bool(change.args.get("replace")) and change.find(exp.CopyGrantsProperty) is None
            record_owner(grants, role, kind, name, replaced=forgets)
    for action in change.args.get("actions") or []:
        if isinstance(action, exp.AlterRename):
            (old,) = statement.targets()
            grants.table.rename(kind, old, statement.full_name(action.this))


def record_owner(grants: RoleGrants, role: str, kind: str, name: str, *, replaced: bool) -> None:
    """What was made belongs to `role`, and has the future grants of its place."""
    if replaced:
        grants.table.forget(kind, name)
    if grants.now().owner(kind, name) is not None:
        return
    grants.table.own(kind, name, role)
    schema = around(name)
    future = grants.now().granted(f"FUTURE {kind}S IN SCHEMA", schema) if kind != "SCHEMA" else []
    future = future or grants.now().granted(f"FUTURE {kind}S IN DATABASE", name.partition(".")[0])
    for grant in future:
        if grant.privilege == "OWNERSHIP":
            grants.table.own(kind, name, grant.grantee)
        else:
            made = Grant(grant.privilege, kind, name, grant.to_kind, grant.grantee, grant.option)
            grants.table.add([made], role)
