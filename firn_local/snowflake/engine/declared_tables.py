"""What CREATE TABLE says beyond DuckDB's tables: read off its tree, and kept as annotations.

Constraints other than NOT NULL are kept or dropped and never enforced; the columns of a primary key are NOT NULL. Tags
are kept. Source: https://docs.snowflake.com/en/sql-reference/sql/create-table and constraints-overview.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import Expr, exp

from firn_local.snowflake.change_tracking import retention
from firn_local.snowflake.sql import data_types
from firn_local.snowflake.sql.parsing import INTERACTIVE
from firn_local.snowflake.sql.sql_errors import SYNTAX, compilation_error
from firn_local.snowflake.store.table_annotations import Annotation

EVOLUTION = "ENABLE_SCHEMA_EVOLUTION"
CHANGE_TRACKING = "CHANGE_TRACKING"
_CONSTRAINTS = (exp.PrimaryKey, exp.ForeignKey, exp.Constraint, exp.UniqueColumnConstraint)
_OF_COLUMNS = (exp.PrimaryKeyColumnConstraint, exp.UniqueColumnConstraint, exp.Reference)


@dataclass
class Declared:
    """The annotations of a table about to be made; tags by their names as written, of the table under no name."""

    table: Annotation = field(default_factory=dict)
    columns: dict[str, Annotation] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    """The columns that are NOT NULL."""
    tags: dict[str, dict[exp.Table, str]] = field(default_factory=dict)


def take_off(create: Expr, streamed: str | None) -> Declared:
    """The annotations of a CREATE TABLE, whose tree is changed in place to what fakesnow and DuckDB take."""
    declared = Declared({} if streamed is None else {"streams": streamed})
    if isinstance(create.this, exp.Schema):
        _take_constraints(declared, create.this)
        for column in create.this.expressions:
            if isinstance(column, exp.ColumnDef) and column.kind is not None:
                declared.columns[name_of(column.this)] = annotation_of(column)
                # fakesnow reads lengths of texts before it drops them
                if not column.kind.is_type(*exp.DataType.TEXT_TYPES):
                    data_types.without_sizes(column.kind)
    properties = create.args.get("properties")
    for each in list(properties.expressions) if properties is not None else []:
        if isinstance(each, exp.Tags):
            declared.tags[""] = tags_of(each)
            each.pop()
        elif _take_property(declared.table, each):
            each.pop()
    if properties is not None and not properties.expressions:
        create.set("properties", None)  # else fakesnow keeps the comment None
    if declared.table.get("interactive") and not declared.table.keys() & {"cluster_by", "streams"}:
        raise compilation_error(SYNTAX, "CREATE INTERACTIVE TABLE wants CLUSTER BY (<expr> [, ...]).")
    return declared


def _take_constraints(declared: Declared, schema: exp.Schema) -> None:
    """Take off what is not enforced; a primary key is remembered."""
    for each in list(schema.expressions):
        if isinstance(each, _CONSTRAINTS):
            if key := primary_key(each):
                declared.table["primary_key"] = key
            each.pop()
        elif isinstance(each, exp.ColumnDef):
            _take_from_column(declared, each)
    for each in schema.expressions:
        if isinstance(each, exp.ColumnDef) and name_of(each.this) in declared.table.get("primary_key", ()):
            _require(declared, each)


def _take_from_column(declared: Declared, column: exp.ColumnDef) -> None:
    for constraint in list(column.constraints):
        if isinstance(constraint.kind, exp.PrimaryKeyColumnConstraint):
            declared.table["primary_key"] = [name_of(column.this)]
        if isinstance(constraint.kind, exp.NotNullColumnConstraint) and not constraint.kind.args.get("allow_null"):
            declared.required.append(name_of(column.this))
        if isinstance(constraint.kind, exp.Tags):
            declared.tags[name_of(column.this)] = tags_of(constraint.kind)
        if isinstance(constraint.kind, (*_OF_COLUMNS, exp.Tags)):
            constraint.pop()


def _require(declared: Declared, column: exp.ColumnDef) -> None:
    if name_of(column.this) not in declared.required:
        declared.required.append(name_of(column.this))
        column.append("constraints", exp.ColumnConstraint(kind=exp.NotNullColumnConstraint()))


def primary_key(constraint: Expr) -> list[str]:
    """The names of the columns of a PRIMARY KEY, also of one with a name; none for another constraint."""
    found = constraint.find(exp.PrimaryKey)
    return [name_of(each) for each in found.expressions] if found is not None else []


def tags_of(tags: exp.Tags) -> dict[exp.Table, str]:
    """Values by the names of their tags."""
    return {exp.to_table(each.this.sql(), dialect="snowflake"): each.args["value"].name for each in tags.expressions}


def annotation_of(column: exp.ColumnDef) -> Annotation:
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


def clustering(expressions: list[Expr]) -> str:
    """`CLUSTER BY (...)` as SHOW TABLES has it."""
    return f"LINEAR({', '.join(each.sql(dialect='snowflake') for each in expressions)})"


def _take_property(annotation: Annotation, each: Expr) -> bool:
    match each:
        case exp.CopyGrantsProperty():
            pass  # the privileges are `ownership`'s
        case exp.TransientProperty():
            annotation["kind"] = "TRANSIENT"
        case exp.ClusterProperty() | exp.Cluster():
            annotation["cluster_by"] = clustering(each.expressions)
        case _ if type(each) is not exp.Property:  # the others are fakesnow's: TEMPORARY, COMMENT, ...
            return False
        case _ if each.name.upper() == EVOLUTION:
            annotation["evolves"] = bool(each.args["value"].this)
        case _ if each.name.upper() in retention.DEFAULTS:
            annotation[each.name.upper()] = days(each)
        case _ if each.name.upper() == CHANGE_TRACKING:
            annotation[CHANGE_TRACKING] = bool(each.args["value"].this)
        case _ if each.name.upper() == INTERACTIVE:
            annotation["interactive"] = True
    return True


def days(each: exp.Property) -> int:
    """A retention time in days."""
    count = int(each.args["value"].name)
    if not 0 <= count <= retention.LONGEST:
        raise compilation_error((1008, "22023"), f"invalid value [{count}] for parameter '{each.name.upper()}'")
    return count


def name_of(identifier: Expr) -> str:
    """The name of a column as it is kept: upper case where not quoted."""
    return identifier.name if identifier.args.get("quoted") else identifier.name.upper()
