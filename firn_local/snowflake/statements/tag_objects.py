"""TAG objects: CREATE, ALTER, DROP and SHOW. Setting them is ALTER TABLE's (`engine.object_tags`).

Source: https://docs.snowflake.com/en/sql-reference/sql/create-tag, alter-tag, drop-tag, show-tags.
"""

from __future__ import annotations

import json

from firn_local.snowflake.engine import named_objects
from firn_local.snowflake.engine.family import Family
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement, ownership
from firn_local.snowflake.privileges.requirements import Need
from firn_local.snowflake.sql.result_set import TEXT, TIME, ResultSet
from firn_local.snowflake.sql.sql_errors import duplicate, unsupported
from firn_local.snowflake.sql.tokenizer import Tokenizer
from firn_local.snowflake.store import tag_table
from firn_local.snowflake.store.tag_table import Tag

_COLUMNS = [
    ("created_on", TIME), ("name", TEXT), ("database_name", TEXT), ("schema_name", TEXT), ("owner", TEXT),
    ("comment", TEXT), ("allowed_values", TEXT), ("owner_role_type", TEXT),
]  # fmt: skip


def _create(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("CREATE")
    replace = tokens.skip("OR", "REPLACE")
    tokens.expect("TAG")
    if_absent = tokens.skip("IF", "NOT", "EXISTS")
    name = session.full_name(tokens.name())
    allowed = _values(tokens) if tokens.skip("ALLOWED_VALUES") else None
    comment = str(tokens.properties().get("COMMENT", ""))
    short = name.rpartition(".")[2]
    enforcement.demand(session, Need(("CREATE TAG",), "SCHEMA", name.rpartition(".")[0]))
    with session.ddl():
        if tag_table.find(session.store, name) is not None:
            if if_absent:
                return ResultSet.status(f"{short} already exists, statement succeeded.")
            if not replace:
                raise duplicate(short)
            enforcement.demand(session, Need(("OWNERSHIP",), "TAG", name))
        tag_table.keep(session.store, name, allowed, comment)
        ownership.record_owner(session.role_grants, session.role, "TAG", name, replaced=replace)
    return ResultSet.status(f"Tag {short} successfully created.")


def _values(tokens: Tokenizer) -> list[str]:
    found = [tokens.literal()]
    while tokens.skip(","):
        found.append(tokens.literal())
    return found


def _alter(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("ALTER", "TAG")
    if_exists = tokens.skip("IF", "EXISTS")
    name = session.full_name(tokens.name())
    tag = _find(session, name)
    if tag is None and if_exists:
        return ResultSet.status()
    tag = named_objects.required("TAG", name, tag)
    enforcement.demand(session, Need(("OWNERSHIP",), "TAG", name))
    with session.ddl():
        allowed, comment = _altered(tokens, tag, sql)
        tag_table.keep(session.store, name, allowed, comment)
    return ResultSet.status()


def _altered(tokens: Tokenizer, tag: Tag, sql: str) -> tuple[list[str] | None, str]:
    if tokens.skip("ADD", "ALLOWED_VALUES"):
        return list(dict.fromkeys([*(tag.allowed or []), *_values(tokens)])), tag.comment
    if tokens.skip("DROP", "ALLOWED_VALUES"):
        gone = _values(tokens)
        return [value for value in tag.allowed or [] if value not in gone], tag.comment
    if tokens.skip("UNSET", "ALLOWED_VALUES"):
        return None, tag.comment
    if tokens.skip("SET", "COMMENT", "="):
        return tag.allowed, tokens.literal()
    raise unsupported(sql)


def _drop(session: Session, sql: str) -> ResultSet:
    return named_objects.dropped(session, sql, "TAG", _find, _remove)


def _remove(session: Session, name: str, _: Tag) -> None:
    tag_table.remove(session.store, name)


def _find(session: Session, name: str) -> Tag | None:
    return tag_table.find(session.store, name)


def _show(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("SHOW", "TAGS")
    like = tokens.like()
    prefix = session.scope(tokens)
    tags = [tag for tag in tag_table.rows(session.store) if tag.name.startswith(prefix)]
    seen = enforcement.visible(session, "TAG", [tag.name for tag in tags])
    return ResultSet(
        _COLUMNS,
        [
            _row(session, tag)
            for tag in tags
            if tag.name in seen and (like is None or like.fullmatch(tag.name.split(".", 2)[2]))
        ],
    )


def _row(session: Session, tag: Tag) -> tuple[object, ...]:
    database, schema, name = tag.name.split(".", 2)
    owner = session.role_grants.now().owner("TAG", tag.name)
    allowed = None if tag.allowed is None else json.dumps(tag.allowed)
    return (tag.created_on, name, database, schema, owner, tag.comment, allowed, "ROLE")


FAMILY = Family(
    commands={
        ("CREATE", "TAG"): _create,
        ("CREATE", "OR", "REPLACE", "TAG"): _create,
        ("ALTER", "TAG"): _alter,
        ("DROP", "TAG"): _drop,
        ("SHOW", "TAGS"): _show,
    },
    create_tables=tag_table.create_table,
    on_removed=tag_table.forget_inside,
)
