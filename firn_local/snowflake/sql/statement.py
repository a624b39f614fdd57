"""What a parsed statement is to the transaction layer: its kind and the tables it touches. Not for running it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from fakesnow.expr import normalise_ident
from sqlglot import Expr, exp


class Kind(Enum):
    """How a statement meets the open transaction."""

    QUERY = auto()
    APPEND = auto()  # INSERT, COPY: changes rows, takes no lock
    CHANGE = auto()  # UPDATE, DELETE, MERGE, TRUNCATE: changes rows under the table's lock
    DDL = auto()  # commits what is open, then runs and commits by itself
    SESSION = auto()  # USE, SET, SHOW, DESCRIBE, PUT, ...: does not touch the transaction


@dataclass(frozen=True)
class Statement:
    """One statement: its text, its syntax tree, and for the session's database and schema the tables it names."""

    sql: str
    expression: Expr
    database: str | None
    schema: str | None

    @property
    def kind(self) -> Kind:
        """How it meets the open transaction."""
        if isinstance(self.expression, exp.Insert) and self.expression.args.get("overwrite"):
            return Kind.CHANGE
        return _KINDS.get(type(self.expression), Kind.SESSION)

    @property
    def object_kind(self) -> str:
        """TABLE, ROLE, SESSION, ...: what it is about, as its family names it; for an unparsed one its first word."""
        args = self.expression.args
        kind = args.get("this" if isinstance(self.expression, exp.Command) else "kind")
        return (kind.name if isinstance(kind, Expr) else str(kind or "")).upper()

    def targets(self) -> frozenset[str]:
        """Full names of the tables a DML or DDL statement changes."""
        return frozenset(self.full_name(table) for table in self.target_nodes())

    def target_nodes(self) -> list[exp.Table]:
        """Where the statement's tree names them."""
        args = self.expression.args
        this = args.get("this")
        named = [
            this.this if isinstance(this, (exp.Schema, exp.UserDefinedFunction)) else this,
            *(args.get("tables") or []),
        ]
        if isinstance(self.expression, exp.TruncateTable):
            named = self.expression.expressions
        named += [action.this for action in args.get("actions") or [] if isinstance(action, exp.SwapTable)]
        return [table for table in named if isinstance(table, exp.Table)]

    def target_objects(self) -> list[str]:
        """Full names of what a DDL statement changes, whatever its kind: a schema's has two parts, a database's one."""
        kind = str(self.expression.args.get("kind"))
        return [self.object_name(table, kind) for table in self.target_nodes()]

    def object_name(self, table: exp.Table, kind: str) -> str:
        """The full name of an object of this kind."""
        if kind not in {"SCHEMA", "DATABASE"}:
            return self.full_name(table)
        # CREATE and DROP SCHEMA leave the table's own place empty, USE and COMMENT do not.
        parts = [_ident(table.args.get(place)) for place in ("catalog", "db", "this")]
        given = [part for part in parts if part]
        return ".".join([*[self.database or ""][: 2 - len(given)], *given]) if kind == "SCHEMA" else given[-1]

    def full_name(self, table: exp.Table) -> str:
        """DATABASE.SCHEMA.TABLE, upper case where not quoted."""
        parts = (
            _ident(table.args.get("catalog")) or self.database or "",
            _ident(table.args.get("db")) or self.schema or "",
            _ident(table.this) or table.name,
        )
        return ".".join(parts)

    def reads(self) -> frozenset[str]:
        """Full names of every table or view whose rows it must see (names of CTEs among them do no harm).

        The target counts for UPDATE, DELETE and MERGE, not for INSERT and COPY.
        """
        tree: Expr | None = self.expression
        if self.kind is Kind.APPEND:
            tree = self.expression.args.get("expression")
        found = tree.find_all(exp.Table) if tree is not None else []
        return frozenset(self.full_name(t) for t in found if isinstance(t.this, exp.Identifier))


def _ident(node: object) -> str:
    if not isinstance(node, exp.Identifier):
        return ""
    return node.name if node.quoted else normalise_ident(node.name)


_KINDS: dict[type[Expr], Kind] = {
    exp.Select: Kind.QUERY,
    exp.Union: Kind.QUERY,
    exp.Except: Kind.QUERY,
    exp.Intersect: Kind.QUERY,
    exp.Subquery: Kind.QUERY,
    exp.Insert: Kind.APPEND,
    exp.Copy: Kind.APPEND,
    exp.Update: Kind.CHANGE,
    exp.Delete: Kind.CHANGE,
    exp.Merge: Kind.CHANGE,
    exp.TruncateTable: Kind.CHANGE,
    exp.Create: Kind.DDL,
    exp.Drop: Kind.DDL,
    exp.Alter: Kind.DDL,
    exp.Comment: Kind.DDL,
}
