"""CREATE TABLE and ALTER TABLE: what they say beyond DuckDB's tables is kept as annotations. COMMENT; other objects.

Types and defaults with their sizes, comments on columns, TRANSIENT, INTERACTIVE, CLUSTER BY, ENABLE_SCHEMA_EVOLUTION.
An ALTER changes all that it names or nothing. RENAME, SWAP and DROP COLUMN are fakesnow's, as are CREATE and DROP
of views, schemas and the like. Who waits for whom is in `engine.object_changes`. Source:
https://docs.snowflake.com/en/sql-reference/sql/create-table, create-interactive-table, alter-table, alter-table-column.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fakesnow import info_schema
from sqlglot import Expr, exp

from firn_local.snowflake.change_tracking import retention
from firn_local.snowflake.engine import context_functions
from firn_local.snowflake.engine.family import Execution, Family, Handler, as_it_is
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import requirements
from firn_local.snowflake.sql import data_types
from firn_local.snowflake.sql.parsing import INTERACTIVE
from firn_local.snowflake.sql.result_set import ResultSet
from firn_local.snowflake.sql.sql_errors import INVALID_IDENTIFIER, SYNTAX, compilation_error, missing, unsupported
from firn_local.snowflake.sql.statement import Statement
from firn_local.snowflake.store import table_annotations
from firn_local.snowflake.store.table_annotations import Annotation, KnownColumn, Place

COLUMN_THERE = (1430, "42601")
CANNOT_CHANGE = (2108, "22000")
EVOLUTION = "ENABLE_SCHEMA_EVOLUTION"
CHANGE_TRACKING = "CHANGE_TRACKING"


@dataclass
class Declared:
    """The annotations of a table about to be made."""

    table: Annotation = field(default_factory=dict)
    columns: dict[str, Annotation] = field(default_factory=dict)


def _create(session: Session, statement: Statement, execution: Execution) -> None:
    tree = execution.rewritten()
    streamed = _streamed(statement.expression)
    if streamed is not None:
        tree.set("expression", None)  # DuckDB makes an empty table; `streaming` evaluates the SELECT over the rows
    declared = _take_off(tree, streamed)
    _escape_comments(tree)
    execution.run(tree)
    _keep(session, tree, declared)


def _create_other(_: Session, __: Statement, execution: Execution) -> None:
    tree = execution.rewritten()
    _escape_comments(tree)
    execution.run(tree)


def _comment(_: Session, __: Statement, execution: Execution) -> ResultSet:
    tree = execution.rewritten()
    _escape_comments(tree)
    execution.run(tree)
    return ResultSet.status()


def _take_off(create: Expr, streamed: str | None) -> Declared:
    """The annotations of a CREATE TABLE, whose tree is changed in place to what fakesnow and DuckDB take."""
    declared = Declared({} if streamed is None else {"streams": streamed})
    if isinstance(create.this, exp.Schema):
        for column in create.this.expressions:
            if isinstance(column, exp.ColumnDef) and column.kind is not None:
                declared.columns[_name(column.this)] = _annotation_of(column)
                # fakesnow reads lengths of texts before it drops them
                if not column.kind.is_type(*exp.DataType.TEXT_TYPES):
                    data_types.without_sizes(column.kind)
    properties = create.args.get("properties")
    for each in list(properties.expressions) if properties is not None else []:
        if _take_property(declared.table, each):
            each.pop()
    if properties is not None and not properties.expressions:
        create.set("properties", None)  # else fakesnow keeps the comment None
    if declared.table.get("interactive") and not declared.table.keys() & {"cluster_by", "streams"}:
        raise compilation_error(SYNTAX, "CREATE INTERACTIVE TABLE wants CLUSTER BY (<expr> [, ...]).")
    return declared


def _streamed(create: Expr) -> str | None:
    """The SELECT of CREATE ... AS (SELECT ... FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING'))); None for any other."""
    source = create.args.get("expression")
    if source is None or not any(call.name.upper() == "DATA_SOURCE" for call in source.find_all(exp.Anonymous)):
        return None
    return str(source.unnest().sql(dialect="snowflake"))


def _keep(session: Session, create: Expr, declared: Declared) -> None:
    """After the table was made: keep its annotations."""
    name = create.args.get("_temporary") or Statement("", create, session.database, session.schema).target_objects()[0]
    place = session.place_of(str(name))
    statements = table_annotations.on_columns(place, declared.columns)
    tracked = declared.table.pop(CHANGE_TRACKING, False)
    if declared.table:
        statements.append(table_annotations.on_table(place, declared.table))
    table_annotations.in_one_transaction(session.duck, statements)
    if tracked and place[0] != "temp":
        session.account.tracked.enable(".".join(place), session.account.now())


def _annotation_of(column: exp.ColumnDef) -> Annotation:
    """The annotation of a column's definition; its comment, which DuckDB has no place for there, is taken off."""
    annotation: Annotation = {"type": data_types.text_of(column.args["kind"])}
    for constraint in list(column.constraints):
        match constraint.kind:
            case exp.CommentColumnConstraint():
                annotation["comment"] = constraint.kind.this.name
                constraint.pop()
            case exp.DefaultColumnConstraint():
                annotation["default"] = constraint.kind.this.sql(dialect="snowflake")
            case exp.GeneratedAsIdentityColumnConstraint() | exp.AutoIncrementColumnConstraint():
                start, step = (constraint.kind.args.get(word) for word in ("start", "increment"))
                numbers = f"START {start.name if start else 1} INCREMENT {step.name if step else 1}"
                annotation |= {"default": f"IDENTITY {numbers} NOORDER", "identity": True}
    return annotation


def _clustering(expressions: list[Expr]) -> str:
    """`CLUSTER BY (...)` as SHOW TABLES has it."""
    return f"LINEAR({', '.join(each.sql(dialect='snowflake') for each in expressions)})"


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


def _take_property(annotation: Annotation, each: Expr) -> bool:
    match each:
        case exp.TransientProperty():
            annotation["kind"] = "TRANSIENT"
        case exp.ClusterProperty() | exp.Cluster():
            annotation["cluster_by"] = _clustering(each.expressions)
        case _ if type(each) is not exp.Property:  # the others are fakesnow's: TEMPORARY, COMMENT, ...
            return False
        case _ if each.name.upper() == EVOLUTION:
            annotation["evolves"] = bool(each.args["value"].this)
        case _ if each.name.upper() in retention.DEFAULTS:
            annotation[each.name.upper()] = _days(each)
        case _ if each.name.upper() == CHANGE_TRACKING:
            annotation[CHANGE_TRACKING] = bool(each.args["value"].this)
        case _ if each.name.upper() == INTERACTIVE:
            annotation["interactive"] = True
    return True


def _alter(session: Session, statement: Statement, execution: Execution) -> ResultSet | None:
    alter = statement.expression.copy()
    actions = alter.args.get("actions") or []
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
                self._table["cluster_by"] = _clustering(action.expressions)
            case _:  # DROP CLUSTERING KEY
                self._table.pop("cluster_by", None)

    def run(self) -> None:
        named = table_annotations.on_columns(self._place, self._annotations)
        table_annotations.in_one_transaction(
            self._session.duck, [*self._statements, *named, table_annotations.on_table(self._place, self._table)]
        )
        if self._comment is not None:
            self._session.duck.execute(
                info_schema.insert_table_comment_sql(*self._place, self._comment.replace("'", "''"))
            )

    def _add_column(self, column: exp.ColumnDef) -> None:
        name = _name(column.this)
        if name in self._columns:
            if column.args.get("exists"):
                return
            raise compilation_error(COLUMN_THERE, f"column '{name}' already exists")
        self._annotations[name] = _annotation_of(column)
        self._statements.append(
            f"ALTER TABLE {table_annotations.quoted(self._place)} ADD COLUMN {self._to_duckdb(column)}"
        )

    def _alter_column(self, action: exp.AlterColumn) -> None:
        column = self._columns.get(_name(action.this))
        if column is None:
            raise compilation_error(INVALID_IDENTIFIER, f"invalid identifier '{_name(action.this)}'")
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
            self._table[each.name.upper()] = _days(each)

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


def _days(each: exp.Property) -> int:
    """A retention time in days."""
    days = int(each.args["value"].name)
    if not 0 <= days <= retention.LONGEST:
        raise compilation_error((1008, "22023"), f"invalid value [{days}] for parameter '{each.name.upper()}'")
    return days


def _is_ours(action: Expr) -> bool:
    if isinstance(action, exp.AlterColumn):
        return not action.args.get("default")
    if isinstance(action, exp.Command):
        return f"{action.this} {action.expression}".upper().split() == ["DROP", "CLUSTERING", "KEY"]
    return isinstance(action, (exp.ColumnDef, exp.AlterSet, exp.ClusterProperty, exp.Cluster))


def _unparsed_alter(session: Session, statement: Statement, execution: Execution) -> None:
    """An ALTER TABLE that sqlglot does not parse, and fakesnow perhaps does."""
    if not " ".join(statement.sql.upper().split()).startswith("ALTER TABLE"):
        raise unsupported(statement.sql)
    as_it_is(session, statement, execution)


def _name(identifier: Expr) -> str:
    return identifier.name if identifier.args.get("quoted") else identifier.name.upper()


FAMILY = Family(
    handlers={
        (exp.Create, "TABLE"): Handler(_create, requirements.to_create),
        (exp.Create, ""): Handler(_create_other, requirements.to_create),
        (exp.Alter, "TABLE"): Handler(_alter, requirements.to_own),
        (exp.Alter, ""): Handler(as_it_is, requirements.to_own),
        (exp.Drop, ""): Handler(as_it_is, requirements.to_own),
        (exp.Comment, ""): Handler(_comment, requirements.to_own),
        (exp.Command, "ALTER"): Handler(_unparsed_alter, requirements.to_alter_table),
    }
)
