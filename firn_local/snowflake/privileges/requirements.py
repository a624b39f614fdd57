"""What a statement needs: the privileges, by object, that Snowflake's reference names for it, from its syntax tree.

Not for whether somebody holds them (`enforcement`). The family of a statement names the function here that finds its
needs, and checks itself what only shows as it runs. A view is read with its owner's rights: its tables are not looked
at. Source: the access control requirements of each statement's page, and
https://docs.snowflake.com/en/user-guide/security-access-control-privileges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fakesnow.transforms import stage
from sqlglot import Expr, exp

from firn_local.snowflake.metering.compute import Compute, compute_of
from firn_local.snowflake.sql.full_names import around
from firn_local.snowflake.sql.statement import Statement
from firn_local.snowflake.sql.tokenizer import Tokenizer

ANY = ("*",)  # some privilege, whichever: enough to look at an object
ACCOUNT = "ACCOUNT"
USAGE_DATABASE = "SNOWFLAKE"
"""The database of Snowflake's own that every account has."""
_ON_DATABASE = {"SCHEMA"}
_READABLE = "INFORMATION_SCHEMA"


@dataclass(frozen=True)
class Need:
    """One of these privileges on an object, or to own it; `creates` is for the primary role alone to hold."""

    any_of: tuple[str, ...]
    kind: str
    name: str

    @property
    def place(self) -> tuple[str, str]:
        """What it is on."""
        return self.kind, self.name

    @property
    def creates(self) -> bool:
        """Whether it is a privilege to make objects, which secondary roles do not give."""
        return self.any_of[0].startswith("CREATE ")


@dataclass(frozen=True)
class Needs:
    """Everything a statement needs; `warehouse` where only a running one can answer it."""

    objects: tuple[Need, ...]
    warehouse: bool = False

    @property
    def tables(self) -> frozenset[str]:
        """Full names of the tables and views that it reads."""
        return frozenset(need.name for need in self.objects if need.any_of == ("SELECT",))


Finder = Callable[[Statement], Iterable[Need]]


def needs_of(statement: Statement, find: Finder) -> Needs:
    """Everything a statement needs, where `find` names the objects."""
    return Needs(tuple(dict.fromkeys(find(statement))), warehouse=compute_of(statement) is Compute.WAREHOUSE)


def on_account(privilege: str) -> Need:
    """A privilege of the whole account."""
    return Need((privilege,), ACCOUNT, ACCOUNT)


def nothing(_: Statement) -> Iterator[Need]:
    """No privilege at all."""
    yield from ()


def to_query(statement: Statement) -> Iterator[Need]:
    """A query: SELECT on what it reads."""
    yield from _reads(statement, statement.expression)


def to_insert(statement: Statement) -> Iterator[Need]:
    """INSERT: the privilege on its target, and SELECT on what it reads."""
    privileges = ["INSERT"] + (["DELETE"] if statement.expression.args.get("overwrite") else [])
    yield from _on_targets(statement, *privileges)
    yield from _reads(statement, statement.expression.args.get("expression"))


def to_change(privilege: str) -> Callable[[Statement], Iterator[Need]]:
    """UPDATE, DELETE or TRUNCATE: `privilege` on the target, and SELECT on what it reads."""

    def find(statement: Statement) -> Iterator[Need]:
        yield from _on_targets(statement, privilege)
        yield from _reads(statement, statement.expression)

    return find


def to_merge(statement: Statement) -> Iterator[Need]:
    """MERGE: a privilege for each of its actions."""
    whens = statement.expression.args["whens"].expressions
    for action in (when.args["then"] for when in whens):
        privilege = action.name.upper() if isinstance(action, exp.Var) else type(action).__name__.upper()
        yield from _on_targets(statement, privilege)
    yield from _reads(statement, statement.expression)


def to_copy(statement: Statement) -> Iterator[Need]:
    """COPY INTO a table: INSERT, READ on the stage, and WRITE where it purges."""
    yield from _on_targets(statement, "INSERT")
    for files in statement.expression.args.get("files") or []:
        yield from _reads(statement, files)
    if any(param.this.name.upper() == "PURGE" for param in statement.expression.args.get("params") or []):
        yield from (Need(("WRITE",), need.kind, need.name) for need in _stages(statement, statement.expression))


def to_put(statement: Statement) -> Iterator[Need]:
    """PUT: WRITE on the stage."""
    yield from on_stage(statement, statement.expression.args["target"].name.strip("'"), "WRITE")


def to_create(statement: Statement) -> Iterator[Need]:
    """CREATE: the privilege on the schema or database around the object."""
    create = statement.expression
    kind = str(create.args.get("kind"))
    for name in statement.target_objects():
        parent = around(name)
        parent_kind = "DATABASE" if kind in _ON_DATABASE else "SCHEMA"
        # Anybody who may use a schema may make temporary tables in it.
        temporary = kind == "TABLE" and create.find(exp.TemporaryProperty) is not None
        yield Need(("USAGE",) if temporary else (f"CREATE {kind}",), parent_kind, parent)
    yield from _reads(statement, create)


def to_own(statement: Statement) -> Iterator[Need]:
    """ALTER, DROP, COMMENT: OWNERSHIP."""
    kind = str(statement.expression.args.get("kind")).upper()
    if kind == "COLUMN":  # COMMENT ON COLUMN t.c
        column = statement.expression.this
        table = exp.Table(this=column.args["table"], db=column.args.get("db"), catalog=column.args.get("catalog"))
        yield Need(("OWNERSHIP",), "TABLE", statement.full_name(table))
        return
    for name in statement.target_objects():
        yield Need(("OWNERSHIP",), kind, name)
    for action in statement.expression.args.get("actions") or []:
        if isinstance(action, exp.AlterRename):
            yield Need((f"CREATE {kind}",), "SCHEMA", around(statement.full_name(action.this)))


def to_alter_table(statement: Statement) -> Iterator[Need]:
    """An ALTER TABLE that sqlglot does not know."""
    tokens = Tokenizer(statement.sql)
    if tokens.skip("ALTER", "TABLE"):
        tokens.skip("IF", "EXISTS")
        name = tokens.name()
        around = [statement.database or "", statement.schema or ""][: 2 - name.count(".")]
        yield Need(("OWNERSHIP",), "TABLE", ".".join([*around, name]))


def to_use(statement: Statement) -> Iterator[Need]:
    """USE without a kind, and USE SCHEMA: some privilege."""
    kind = statement.expression.args.get("kind")
    table = statement.expression.this
    if kind is None and isinstance(table, exp.Table) and not table.db:
        yield Need(ANY, "DATABASE", statement.object_name(table, "DATABASE"))
    elif isinstance(table, exp.Table) and (kind is None or kind.name.upper() == "SCHEMA"):
        yield Need(ANY, "SCHEMA", statement.object_name(table, "SCHEMA"))


def on_stage(statement: Statement, reference: str, privilege: str) -> Iterator[Need]:
    """A privilege on the stage of `@[db.][schema.]stage[/path]`; a table's stage is its owner's, `@~` everybody's."""
    name = reference.lstrip("@").partition("/")[0]
    if name.startswith("~"):
        return
    database, schema, short = stage.parts_from_var(name, statement.database, statement.schema)
    if short.startswith("%"):
        yield Need(("OWNERSHIP",), "TABLE", f"{database}.{schema}.{short[1:]}")
    else:
        yield Need((privilege,), "STAGE", f"{database}.{schema}.{short}")


def _on_targets(statement: Statement, *privileges: str) -> Iterator[Need]:
    for name in statement.targets():
        yield from (Need((privilege,), "TABLE", name) for privilege in privileges)


def _reads(statement: Statement, tree: Expr | None) -> Iterator[Need]:
    """SELECT on each table and view in `tree` but the statement's own targets; READ on each stage."""
    if tree is None:
        return
    targets = {id(table) for table in statement.target_nodes()}
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier) or id(table) in targets or is_cte(table):
            continue
        name = statement.full_name(table)
        if is_usage_view(table):
            yield Need(("IMPORTED PRIVILEGES",), "DATABASE", USAGE_DATABASE)
        elif name.split(".")[1] != _READABLE:
            yield Need(("SELECT",), "TABLE", name)
    yield from _stages(statement, tree)


def _stages(statement: Statement, tree: Expr) -> Iterator[Need]:
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, (exp.Var, exp.Literal)) and table.name.startswith("@"):
            yield from on_stage(statement, table.name, "READ")


def is_usage_view(table: exp.Table) -> bool:
    """Whether it is SNOWFLAKE.ACCOUNT_USAGE.<view>."""
    return (table.catalog.upper(), table.db.upper()) == (USAGE_DATABASE, "ACCOUNT_USAGE")


def is_cte(table: exp.Table) -> bool:
    """Whether the name is that of a common table expression around it; one does not see itself unless recursive."""
    if table.db:
        return False
    inside: Expr = table
    while (outer := inside.parent) is not None:
        clause = outer.args.get("with_")
        seen: list[Expr] = []
        if isinstance(outer, exp.With):
            seen = outer.expressions[: outer.expressions.index(inside) + bool(outer.recursive)]
        elif clause is not None and clause is not inside:
            seen = clause.expressions
        if any(cte.alias.upper() == table.name.upper() for cte in seen):
            return True
        inside = outer
    return False
