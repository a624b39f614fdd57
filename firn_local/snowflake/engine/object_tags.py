"""Tags on tables, views and their columns: SET TAG, UNSET TAG, SYSTEM$GET_TAG.

Source: https://docs.snowflake.com/en/user-guide/object-tagging/introduction and functions/system_get_tag. A tag set
keeps its value with the object, also in a clone. Not for tags on other kinds of objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import Expr, exp

from firn_local.snowflake.engine.declared_tables import name_of
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.sql.sql_errors import INVALID_IDENTIFIER, compilation_error, missing, unsupported
from firn_local.snowflake.sql.statement import Statement
from firn_local.snowflake.sql.tokenizer import Tokenizer
from firn_local.snowflake.store import table_annotations, tag_table

GET_TAG = "SYSTEM$GET_TAG"
NOT_ALLOWED = (391801, "22023")
_IS_VIEW = "SELECT 1 FROM duckdb_views() WHERE database_name = ? AND schema_name = ? AND view_name = ?"


def of_action(session: Session, action: Expr) -> dict[str, str | None] | None:
    """Values by full names of tags that an action of ALTER sets; None for one it unsets; None for another action."""
    if isinstance(action, exp.AlterSet) and action.args.get("tag"):
        return {_full_name(session, each.this): each.expression.name for each in action.args["tag"]}
    if isinstance(action, exp.Set) and action.args.get("tag"):
        return {_full_name(session, each): None for each in action.expressions}
    return None


def of_text(session: Session, sql: str) -> tuple[str, str, dict[str, str | None]] | None:
    """(table, column, values) of ALTER TABLE t MODIFY [COLUMN] c SET or UNSET TAG; None for another statement."""
    tokens = Tokenizer(sql)
    if not tokens.skip("ALTER", "TABLE") and not tokens.skip("ALTER", "VIEW"):
        return None
    tokens.skip("IF", "EXISTS")
    table = session.full_name(tokens.name())
    if not tokens.skip("MODIFY") and not tokens.skip("ALTER"):
        return None
    tokens.skip("COLUMN")
    column = tokens.name()
    values: dict[str, str | None] = {}
    if tokens.skip("UNSET", "TAG"):
        values = {session.full_name(name): None for name in tokens.names()}
    elif tokens.skip("SET", "TAG"):
        while tokens:
            tag = session.full_name(tokens.name())
            tokens.expect("=")
            values[tag] = tokens.literal()
            tokens.skip(",")
    return (table, column, values) if values else None


def declared(session: Session, tags: Mapping[exp.Table, str]) -> dict[str, str | None]:
    """Tags of CREATE TABLE ... WITH TAG by their full names."""
    statement = Statement("", exp.Select(), session.database, session.schema)
    return {statement.full_name(tag): value for tag, value in tags.items()}


def put(session: Session, name: str, column: str, values: Mapping[str, str | None]) -> None:
    """Set or unset tags of a table or view, or of its column where one is named."""
    _check(session, values)
    place = session.place_of(name)
    if column:
        known = {each.name: each.annotation for each in table_annotations.columns(session.duck, place)}
        if column not in known:
            raise compilation_error(INVALID_IDENTIFIER, f"invalid identifier '{column}'")
        changed = table_annotations.on_columns(place, {column: _with(known[column], values)})
    else:
        kind = "VIEW" if session.duck.execute(_IS_VIEW, list(place)).fetchall() else "TABLE"
        annotation = _with(table_annotations.table(session.duck, place), values)
        changed = [table_annotations.on_table(place, annotation, kind)]
    table_annotations.in_one_transaction(session.duck, changed)


def _with(annotation: table_annotations.Annotation, values: Mapping[str, str | None]) -> table_annotations.Annotation:
    tags = {**annotation.get("tags", {}), **values}
    return {**annotation, "tags": {name: value for name, value in tags.items() if value is not None}}


def _check(session: Session, values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        tag = tag_table.find(session.store, name)
        if tag is None:
            raise missing("Tag", name)
        if value is not None and tag.allowed is not None and value not in tag.allowed:
            raise compilation_error(NOT_ALLOWED, f"Tag value {value} is not allowed for tag '{name}'.")


def filled_in(session: Session, expression: Expr) -> Expr:
    """SYSTEM$GET_TAG('<tag>', '<object>', '<domain>') as its value (changed in place)."""
    for node in list(expression.find_all(exp.Anonymous)):
        if node.name.upper() != GET_TAG or len(node.expressions) != 3:
            continue
        value = _value(session, *(each.name for each in node.expressions))
        literal = exp.cast(exp.null(), "text") if value is None else exp.Literal.string(value)
        projected = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
        node.replace(exp.alias_(literal, node.sql(dialect="snowflake"), quoted=True) if projected else literal)
    return expression


def _value(session: Session, tag: str, of: str, domain: str) -> str | None:
    name = session.full_name(Tokenizer(tag).name())
    _check(session, {name: None})
    parts = Tokenizer(of).name().split(".")
    if domain.upper() == "COLUMN":
        place = session.place_of(session.full_name(".".join(parts[:-1])))
        annotations: Iterable[table_annotations.Annotation] = (
            each.annotation for each in table_annotations.columns(session.duck, place) if each.name == parts[-1]
        )
    elif domain.upper() in {"TABLE", "VIEW"}:
        place = session.place_of(session.full_name(".".join(parts)))
        annotations = [table_annotations.table(session.duck, place)]
    else:
        raise unsupported(f"{GET_TAG} of a {domain}")
    return next((each["tags"].get(name) for each in annotations if "tags" in each), None)


def _full_name(session: Session, tag: Expr) -> str:
    parts = tag.parts if isinstance(tag, (exp.Column, exp.Table)) else [tag]
    return session.full_name(".".join(name_of(part) for part in parts))
