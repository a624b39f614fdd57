"""CREATE TABLE and ALTER TABLE: what they say beyond DuckDB's tables is kept as annotations. COMMENT; other objects.

Types and defaults with their sizes, comments on columns, TRANSIENT, INTERACTIVE, CLUSTER BY, ENABLE_SCHEMA_EVOLUTION,
primary keys, tags. An ALTER changes all that it names or nothing. RENAME is fakesnow's, as are CREATE and DROP of
schemas and the like. Who waits for whom is in `engine.object_changes`. Source:
https://docs.snowflake.com/en/sql-reference/sql/create-table, create-interactive-table, alter-table, alter-table-column.
"""

from __future__ import annotations

from fakesnow import info_schema
from sqlglot import Expr, exp

from firn_local.snowflake.change_tracking import retention
from firn_local.snowflake.engine import context_functions, object_tags, schema_copies, table_copies
from firn_local.snowflake.engine.declared_tables import (
    CHANGE_TRACKING,
    EVOLUTION,
    Declared,
    annotation_of,
    clustering,
    days,
    name_of,
    primary_key,
    take_off,
)
from firn_local.snowflake.engine.family import Execution, Family, Handler, as_it_is
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.functions.macros import call
from firn_local.snowflake.privileges import requirements
from firn_local.snowflake.sql import data_types
from firn_local.snowflake.sql.result_set import ResultSet
from firn_local.snowflake.sql.sql_errors import INVALID_IDENTIFIER, compilation_error, missing, unsupported
from firn_local.snowflake.sql.statement import Statement
from firn_local.snowflake.store import table_annotations
from firn_local.snowflake.store.table_annotations import Annotation, KnownColumn, Place

_DROPPED = ("DROP CLUSTERING KEY", "DROP PRIMARY KEY")
COLUMN_THERE = (1430, "42601")
CANNOT_CHANGE = (2108, "22000")


def _create(session: Session, statement: Statement, execution: Execution) -> ResultSet | None:
    tree = execution.rewritten()
    if table_copies.source_of(statement.expression) is not None:
        return _copy(session, statement, tree)
    streamed = _streamed(statement.expression)
    if streamed is not None:
        tree.set("expression", None)  # DuckDB makes an empty table; `streaming` evaluates the SELECT over the rows
    declared = take_off(tree, streamed)
    fills = _refuse_nulls(tree, declared)
    _escape_comments(tree)
    execution.run(tree)
    _keep(session, tree, declared, declared.required if fills else [])
    return None


def _copy(session: Session, statement: Statement, tree: Expr) -> ResultSet:
    """CREATE TABLE ... LIKE or CLONE."""
    properties = tree.args.get("properties")
    for each in list(properties.expressions) if properties is not None else []:
        if isinstance(each, exp.LikeProperty):
            each.pop()
    declared = take_off(tree, None)
    name = _made(session, tree)
    table_copies.copied(session, statement, session.place_of(name), declared.table)
    return ResultSet.status(f"Table {name.rpartition('.')[2]} successfully created.")


def _refuse_nulls(create: Expr, declared: Declared) -> bool:
    """Whether it is CREATE TABLE (columns) AS query; the query (changed in place) is an error for a NULL in a column
    that is NOT NULL, which DuckDB takes on only after the table is there.
    """
    query = create.args.get("expression")
    if not isinstance(create.this, exp.Schema) or not isinstance(query, exp.Query):
        return False
    query = query.unnest()
    if isinstance(query, exp.Select) and len(query.selects) == len(create.this.expressions):
        for column, value in zip(create.this.expressions, list(query.selects), strict=True):
            name = name_of(column.this) if isinstance(column, exp.ColumnDef) else ""
            if name in declared.required and not value.is_star:
                inner = value.this if isinstance(value, exp.Alias) else value
                inner.replace(call("required", inner.copy(), exp.Literal.string(name)))
    return True


def _create_view(session: Session, _: Statement, execution: Execution) -> None:
    tree = execution.rewritten()
    comments = _take_comments(tree)
    _escape_comments(tree)
    execution.run(tree)
    if comments:
        place = session.place_of(_made(session, tree))
        kept: dict[str, Annotation] = {name: {"comment": comment} for name, comment in comments.items()}
        table_annotations.in_one_transaction(session.duck, table_annotations.on_columns(place, kept))


def _take_comments(create: Expr) -> dict[str, str]:
    """The comments on the columns of a view, by name; its tree is changed in place to names alone."""
    comments = {}
    for column in list(create.this.expressions) if isinstance(create.this, exp.Schema) else []:
        comment = column.find(exp.CommentColumnConstraint)
        if comment is not None:
            comments[name_of(column.this)] = comment.this.name
        if isinstance(column, exp.ColumnDef):
            column.replace(column.this.copy())
    return comments


def _create_schema(session: Session, statement: Statement, execution: Execution) -> ResultSet | None:
    (made,) = statement.target_objects()
    source = schema_copies.source_of(session, statement)
    if source and statement.expression.args.get("exists") and schema_copies.is_there(session, made):
        return ResultSet.status(f"{made.rpartition('.')[2]} already exists, statement succeeded.")
    tree = execution.rewritten()
    tree.set("clone", None)
    execution.run(tree)
    if source is None:
        return None
    schema_copies.copy_into(session, source, made)
    return ResultSet.status(f"Schema {made.rpartition('.')[2]} successfully created.")


def _create_other(_: Session, __: Statement, execution: Execution) -> None:
    execution.run(execution.rewritten())


def _comment(session: Session, statement: Statement, execution: Execution) -> ResultSet:
    """COMMENT ON; a column's is in its annotation."""
    if statement.object_kind == "COLUMN":
        column = statement.expression.this
        table = exp.Table(this=column.args["table"], db=column.args.get("db"), catalog=column.args.get("catalog"))
        full_name = statement.full_name(table)
        _comment_on_column(session, full_name, name_of(column), statement.expression.expression.name)
        return ResultSet.status()
    tree = execution.rewritten()
    _escape_comments(tree)
    execution.run(tree)
    return ResultSet.status()


def _streamed(create: Expr) -> str | None:
    """The SELECT of CREATE ... AS (SELECT ... FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING'))); None for any other."""
    source = create.args.get("expression")
    if source is None or not any(call.name.upper() == "DATA_SOURCE" for call in source.find_all(exp.Anonymous)):
        return None
    return str(source.unnest().sql(dialect="snowflake"))


def _made(session: Session, create: Expr) -> str:
    """The full name of the table that a statement makes."""
    name = create.args.get("_temporary") or Statement("", create, session.database, session.schema).target_objects()[0]
    return str(name)


def _keep(session: Session, create: Expr, declared: Declared, required: list[str]) -> None:
    """After the table was made: keep its annotations; `required` columns are NOT NULL from now on."""
    place = session.place_of(_made(session, create))
    statements = table_annotations.on_columns(place, declared.columns)
    table, identifier = table_annotations.quoted(place), table_annotations.identifier
    statements += [f"ALTER TABLE {table} ALTER COLUMN {identifier(name)} SET NOT NULL" for name in required]
    tracked = declared.table.pop(CHANGE_TRACKING, False)
    if declared.table:
        statements.append(table_annotations.on_table(place, declared.table))
    table_annotations.in_one_transaction(session.duck, statements)
    for column, tags in declared.tags.items():
        object_tags.put(session, _made(session, create), column, object_tags.declared(session, tags))
    if tracked and place[0] != "temp":
        session.account.tracked.enable(".".join(place), session.account.now())


def _escape_comments(statement: Expr) -> None:
    """Double the quotes in comments on tables and views in place: fakesnow puts their text into SQL as it is."""
    found: list[Expr | None] = []
    if isinstance(statement, exp.Comment):
        found = [statement.expression]
    elif isinstance(statement, exp.Create) and statement.kind in {"TABLE", "VIEW"}:
        found = [each.this for each in statement.find_all(exp.SchemaCommentProperty)]
    for text in found:
        if isinstance(text, exp.Literal | exp.RawString):
            text.set("this", text.name.replace("'", "''"))


def _alter(session: Session, statement: Statement, execution: Execution) -> ResultSet | None:
    alter = statement.expression.copy()
    actions = alter.args.get("actions") or []
    tagged = [tags for action in actions if (tags := object_tags.of_action(session, action)) is not None]
    if tagged:
        (full_name,) = statement.targets()
        _require_table(session, full_name)
        for tags in tagged:
            object_tags.put(session, full_name, "", tags)
        return ResultSet.status()
    if any(isinstance(action, exp.SwapTable) for action in actions):
        table_copies.swapped(session, statement)
        return ResultSet.status()
    if not all(_is_ours(action) for action in actions):
        as_it_is(session, statement, execution)
        return None
    (full_name,) = statement.targets()
    place = session.place_of(full_name)
    columns = table_annotations.columns(session.duck, place)
    if not columns:
        if alter.args.get("exists"):
            return ResultSet.status()
        raise missing("Table", full_name)
    change = _Change(session, execution, place, {column.name: column for column in columns})
    for action in actions:
        change.add(action)
    change.run()
    for each in statement.expression.find_all(exp.Property):
        if each.name.upper() == CHANGE_TRACKING:
            _track(session, full_name, enabled=bool(each.args["value"].this))
    return ResultSet.status()


def _alter_view(session: Session, statement: Statement, execution: Execution) -> ResultSet | None:
    """Comments and tags; RENAME is fakesnow's."""
    (full_name,) = statement.targets()
    place = session.place_of(full_name)
    actions = statement.expression.args.get("actions") or []
    if any(isinstance(action, exp.AlterRename) for action in actions):
        as_it_is(session, statement, execution)
        return None
    if not table_annotations.columns(session.duck, place):
        raise missing("View", full_name)
    for action in actions:
        if (tags := object_tags.of_action(session, action)) is not None:
            object_tags.put(session, full_name, "", tags)
        elif isinstance(action, exp.AlterColumn) and action.args.get("comment") is not None:
            _comment_on_column(session, full_name, name_of(action.this), action.args["comment"].name)
        elif (comment := action.find(exp.SchemaCommentProperty)) is not None:
            _comment_on(session, place, comment.name)
        else:
            raise unsupported(statement.sql)
    return ResultSet.status()


def _comment_on_column(session: Session, full_name: str, name: str, comment: str) -> None:
    place = session.place_of(full_name)
    columns = {column.name: column.annotation for column in table_annotations.columns(session.duck, place)}
    if name not in columns:
        raise compilation_error(INVALID_IDENTIFIER, f"invalid identifier '{name}'")
    kept = {name: {**columns[name], "comment": comment}}
    table_annotations.in_one_transaction(session.duck, table_annotations.on_columns(place, kept))


def _comment_on(session: Session, place: Place, comment: str) -> None:
    session.duck.execute(info_schema.insert_table_comment_sql(*place, comment.replace("'", "''")))


class _Change:
    """The statements for DuckDB that a statement comes to."""

    def __init__(self, session: Session, execution: Execution, place: Place, columns: dict[str, KnownColumn]) -> None:
        self._session, self._execution, self._place, self._columns = session, execution, place, columns
        self._statements: list[str] = []
        self._table = table_annotations.table(session.duck, place)
        self._annotations: dict[str, Annotation] = {}
        self._comment: str | None = None

    def add(self, action: Expr) -> None:
        match action:
            case exp.ColumnDef():
                self._add_column(action)
            case exp.AlterColumn():
                self._alter_column(action)
            case exp.AlterSet():
                for each in action.find_all(exp.Property):
                    self._set(each)
            case exp.ClusterProperty() | exp.Cluster():
                self._table["cluster_by"] = clustering(action.expressions)
            case exp.Drop():
                self._drop(action)
            case exp.AddConstraint():
                if key := primary_key(action):
                    self._table["primary_key"] = key
            case _:  # DROP of a key; only these two are kept
                self._table.pop("cluster_by" if _words(action).startswith("DROP CLUSTERING") else "primary_key", None)

    def run(self) -> None:
        named = table_annotations.on_columns(self._place, self._annotations)
        table_annotations.in_one_transaction(
            self._session.duck, [*self._statements, *named, table_annotations.on_table(self._place, self._table)]
        )
        if self._comment is not None:
            _comment_on(self._session, self._place, self._comment)

    def _add_column(self, column: exp.ColumnDef) -> None:
        name = name_of(column.this)
        if name in self._columns:
            if column.args.get("exists"):
                return
            raise compilation_error(COLUMN_THERE, f"column '{name}' already exists")
        self._annotations[name] = annotation_of(column)
        self._statements.append(
            f"ALTER TABLE {table_annotations.quoted(self._place)} ADD COLUMN {self._to_duckdb(column)}"
        )

    def _drop(self, action: exp.Drop) -> None:
        """Columns; a constraint is not kept."""
        table = table_annotations.quoted(self._place)
        for each in action.args["tables"] if action.args["kind"] == "COLUMN" else []:
            name = name_of(each)
            if name in self._columns:
                self._statements.append(f"ALTER TABLE {table} DROP COLUMN {table_annotations.identifier(name)}")
            elif not action.args.get("exists"):
                raise compilation_error(INVALID_IDENTIFIER, f"invalid identifier '{name}'")

    def _alter_column(self, action: exp.AlterColumn) -> None:
        column = self._columns.get(name_of(action.this))
        if column is None:
            raise compilation_error(INVALID_IDENTIFIER, f"invalid identifier '{name_of(action.this)}'")
        annotation = self._annotations.setdefault(column.name, dict(column.annotation))
        if (kind := action.args.get("dtype")) is not None:
            self._retype(column, annotation, kind)
        elif (comment := action.args.get("comment")) is not None:
            annotation["comment"] = comment.name
        elif (nullable := action.args.get("allow_null")) is not None:
            self._do(column, "DROP NOT NULL" if nullable else "SET NOT NULL")
        else:
            annotation.pop("default", None)
            self._do(column, "DROP DEFAULT")

    def _retype(self, column: KnownColumn, annotation: Annotation, kind: exp.DataType) -> None:
        old = annotation.get("type") or data_types.of_duckdb(column.duck_type)
        new = data_types.text_of(kind)
        if reason := data_types.refusal(old, new):
            raise compilation_error(
                CANNOT_CHANGE, f"cannot change column {column.name} from type {old} to {new} because {reason}."
            )
        annotation["type"] = new
        if new.startswith("NUMBER("):
            definition = self._to_duckdb(exp.ColumnDef(this=exp.to_identifier("c"), kind=kind.copy()))
            self._do(column, f"SET DATA TYPE {definition.partition(' ')[2]}")

    def _to_duckdb(self, column: exp.ColumnDef) -> str:
        """A column's definition in DuckDB's words."""
        column = column.copy()
        column.set("exists", False)
        for kind in column.find_all(exp.DataType):
            data_types.without_sizes(kind)
        return self._execution.translated(context_functions.wide_numbers(column)).sql(dialect="duckdb")

    def _set(self, each: exp.Property) -> None:
        if isinstance(each, exp.SchemaCommentProperty):
            self._comment = each.name
        elif each.name.upper() == EVOLUTION:
            self._table["evolves"] = bool(each.args["value"].this)
        elif each.name.upper() in retention.DEFAULTS:
            self._table[each.name.upper()] = days(each)

    def _do(self, column: KnownColumn, what: str) -> None:
        name = column.name.replace('"', '""')
        self._statements.append(f'ALTER TABLE {table_annotations.quoted(self._place)} ALTER COLUMN "{name}" {what}')


def _track(session: Session, full_name: str, *, enabled: bool) -> None:
    if full_name in session.temporary:
        raise unsupported("CHANGE_TRACKING of a temporary table")
    if enabled:
        session.account.tracked.enable(full_name, session.account.now())
    else:
        session.account.tracked.disable(full_name)


def _words(action: Expr) -> str:
    """A part of a statement that sqlglot does not parse, with single blanks."""
    return " ".join(f"{action.this} {action.expression}".upper().split())


def _is_ours(action: Expr) -> bool:
    if isinstance(action, exp.AlterColumn):
        return not action.args.get("default")
    if isinstance(action, exp.Command):
        return _words(action).startswith(_DROPPED)
    if isinstance(action, exp.Drop):
        return action.args["kind"] in {"COLUMN", "CONSTRAINT"}
    return isinstance(action, (exp.ColumnDef, exp.AlterSet, exp.ClusterProperty, exp.Cluster, exp.AddConstraint))


def _require_table(session: Session, full_name: str) -> None:
    if not table_annotations.columns(session.duck, session.place_of(full_name)):
        raise missing("Table", full_name)


def _unparsed_alter(session: Session, statement: Statement, execution: Execution) -> ResultSet | None:
    """An ALTER TABLE that sqlglot does not parse: tags of a column, or what fakesnow perhaps knows."""
    if (tagged := object_tags.of_text(session, statement.sql)) is not None:
        table, column, tags = tagged
        with session.ddl():
            _require_table(session, table)
            object_tags.put(session, table, column, tags)
        return ResultSet.status()
    if not " ".join(statement.sql.upper().split()).startswith("ALTER TABLE"):
        raise unsupported(statement.sql)
    as_it_is(session, statement, execution)
    return None


FAMILY = Family(
    handlers={
        (exp.Create, "TABLE"): Handler(_create, requirements.to_create),
        (exp.Create, "VIEW"): Handler(_create_view, requirements.to_create),
        (exp.Create, "SCHEMA"): Handler(_create_schema, requirements.to_create),
        (exp.Create, ""): Handler(_create_other, requirements.to_create),
        (exp.Alter, "TABLE"): Handler(_alter, requirements.to_own),
        (exp.Alter, "VIEW"): Handler(_alter_view, requirements.to_own),
        (exp.Alter, ""): Handler(as_it_is, requirements.to_own),
        (exp.Drop, ""): Handler(as_it_is, requirements.to_own),
        (exp.Comment, ""): Handler(_comment, requirements.to_own),
        (exp.Command, "ALTER"): Handler(_unparsed_alter, requirements.to_alter_table),
    }
)
