"""How one statement runs: a fakesnow cursor under the session's rules, failing with Snowflake errors only.

A statement goes to the first of: our own commands (`commands`), DDL (commits what is open), queries and DML (inside
`transactions`), everything else to fakesnow as it is.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import sqlglot
from fakesnow.cursor import FakeSnowflakeCursor
from fakesnow.statement_type import statement_type_id
from sqlglot import Expr, exp

from firn_local.snowflake.engine import column_values, context_functions, positional_columns, temporary_objects
from firn_local.snowflake.privileges import enforcement, requirements
from firn_local.snowflake.sql import data_types, parsing
from firn_local.snowflake.sql.errors import to_snowflake, unsupported
from firn_local.snowflake.sql.result_set import Answer
from firn_local.snowflake.sql.statement import Kind, Statement
from firn_local.snowflake.sql.variables import outside_of_texts
from firn_local.snowflake.statements import alter_table, copy_into, grants, merge, show, stages, tables
from firn_local.snowflake.store import residue
from firn_local.snowflake.transactions.locks import Claim, shape_of
from firn_local.snowflake.transactions.read_committed import Tables

if TYPE_CHECKING:
    from firn_local.snowflake.engine.session import Session


class Cursor(FakeSnowflakeCursor):
    """Runs statements of one session and holds the last result."""

    _conn: Session

    def __init__(self, session: Session) -> None:
        super().__init__(conn=session, duck_conn=session.duck)
        self.statement_type = 0
        self._query_id = str(uuid.uuid4())

    def execute(self, command: str, params: Any = None, *_: Any, query_id: str | None = None, **kwargs: Any) -> Cursor:
        """Run one statement. Raises ProgrammingError with Snowflake's errno and sqlstate for every fault."""
        self._query_id = query_id or str(uuid.uuid4())
        try:
            self._run(outside_of_texts(command, self._inline_variables), kwargs.get("binding_params") or params)
        except Exception as error:
            failure = to_snowflake(error, command)
            self._sqlstate = failure.sqlstate  # type: ignore[assignment]  # fakesnow sets None at first
            raise failure from error
        finally:
            self._conn.last_query_id = self._query_id
        return self

    def _run(self, sql: str, params: Any) -> None:
        from firn_local.snowflake.engine import family  # it knows every command, and they know sessions and cursors

        session = self._conn
        self.statement_type = 0
        command = family.find(sql)
        if command is not None and (answer := command(session, sql)) is not None:
            self.answer(answer)
            return
        expression = parsing.parse(sql)
        self.statement_type = statement_type_id(expression)
        statement = Statement(sql, expression, session.database, session.schema)
        if self._is_dropped_unseen(statement):
            self.answer(Answer.status("Drop statement executed successfully."))
            return
        enforcement.check(session, requirements.needs_of(statement))
        match statement.kind:
            case Kind.DDL:
                self._run_ddl(statement, params)
            case Kind.QUERY | Kind.APPEND | Kind.CHANGE:
                self._run_dml(statement, params)
            case Kind.SESSION:
                if isinstance(expression, exp.Command) and not _fakesnow_knows(expression):
                    raise unsupported(sql)
                self.run_plain(expression, params)

    def _run_ddl(self, statement: Statement, params: Any) -> None:
        session = self._conn
        session.transactions.commit()
        claim = Claim(f"ddl-{self._query_id}", self._query_id)
        targets = statement.targets()
        try:
            for table in sorted(targets):
                self._lock(table, claim)
            with session.ddl():
                self._look_at_what_is_there(statement)
                if name := _already_there(session, statement):
                    self.answer(Answer.status(f"{name} already exists, statement succeeded."))
                    return
                residue.before_replace(session.shared.engine, statement)
                self._change_objects(statement, params)
                residue.after_drop(session.shared.engine, statement)
                grants.record_change(session, statement)
            session.shared.commits.record(targets | shape_of(targets))
        finally:
            session.shared.locks.release(claim.transaction)

    def _change_objects(self, statement: Statement, params: Any) -> None:
        if isinstance(statement.expression, exp.Alter):
            (table,) = statement.targets()
            answer = alter_table.alter(self._conn, statement.expression.copy(), table, self._in_duckdb)
            if answer is not None:
                self.answer(answer)
                return
        self.run_plain(statement.expression, params)

    def _in_duckdb(self, column: exp.ColumnDef) -> str:
        """A column's definition for DuckDB."""
        column = column.copy()
        column.set("exists", False)
        for kind in column.find_all(exp.DataType):
            data_types.without_sizes(kind)
        return self._transform(context_functions.wide_numbers(column), None).sql(dialect="duckdb")

    def _describe_only(self, command: str) -> list[Any] | None:
        """The columns of a query, for those who may run it."""
        expression = parsing.parse(command)
        session = self._conn
        enforcement.check(
            session, requirements.needs_of(Statement(command, expression, session.database, session.schema))
        )
        return super()._describe_only(command)

    def _is_dropped_unseen(self, statement: Statement) -> bool:
        """Whether it is DROP ... IF EXISTS of what the role may not see: that is nothing to drop."""
        drop = statement.expression
        if not (isinstance(drop, exp.Drop) and drop.args.get("exists")):
            return False
        kind = str(drop.args.get("kind"))
        return all(enforcement.holds_nothing(self._conn, kind, name) for name in statement.target_objects())

    def _look_at_what_is_there(self, statement: Statement) -> None:
        """CREATE of what is there fails where the role may not see it, OR REPLACE also where it is not the owner."""
        create, session = statement.expression, self._conn
        if not isinstance(create, exp.Create) or create.find(exp.TemporaryProperty):
            return
        kind = str(create.args.get("kind"))
        for name in statement.target_objects():
            if session.shared.holdings.now().owner(kind, name) is not None:
                enforcement.refuse_unseen(session, kind, name)
                if create.args.get("replace"):
                    enforcement.demand(session, requirements.Need(("OWNERSHIP",), kind, name))

    def _run_dml(self, statement: Statement, params: Any) -> None:
        session, query_id = self._conn, self._query_id
        writes: frozenset[str] = frozenset() if statement.kind is Kind.QUERY else statement.targets()
        if writes and not session.parameters["AUTOCOMMIT"]:
            session.transactions.begin()

        def lock(transaction: str) -> None:
            if statement.kind is Kind.CHANGE:
                for table in sorted(writes):
                    self._lock(table, Claim(transaction, query_id))

        place = (session.database, session.schema)

        def work() -> int | None:
            with session.at(place):
                return self.run_plain(statement.expression, params)

        session.transactions.run(work, Tables(statement.reads() | shape_of(writes), writes, lock))

    def _lock(self, table: str, claim: Claim) -> None:
        session = self._conn
        timeout = float(session.parameters["LOCK_TIMEOUT"])
        session.shared.locks.acquire(table, claim, timeout, lambda: session.cancelled)

    def run_plain(self, expression: Expr, params: Any) -> int | None:
        """Run a statement on DuckDB without locks and transactions; returns the count of affected rows."""
        session = self._conn
        targets = Statement("", expression, session.database, session.schema)
        expression = stages.unquoted(temporary_objects.localise(session, expression.copy()))
        expression = positional_columns.paths(positional_columns.named(session, expression))
        expression = column_values.short_casts(column_values.fitted(session, expression, targets))
        expression = context_functions.fill_in(
            session, context_functions.wide_numbers(context_functions.variants(expression))
        )
        params = dict(params) if isinstance(params, dict) else None if params is None else list(params)
        self.check_db_and_schema(expression)
        if isinstance(expression, exp.Copy):
            copy = self._transform(expression, params)
            answer = copy_into.copy_into(session, copy, params)  # type: ignore[arg-type]  # still a Copy
        elif isinstance(expression, exp.Merge):
            answer = merge.merge(session, self._transform(expression, params), params)
        else:
            is_table = isinstance(expression, exp.Create) and expression.kind == "TABLE"
            shape = tables.take_off(expression) if is_table else None
            tables.escape_comments(expression)
            self._run_parts(expression, params)
            temporary_objects.remember(session, expression)
            if shape is not None:
                tables.keep(session, expression, shape)
            if isinstance(expression, exp.Comment):
                self.answer(Answer.status())
            elif isinstance(expression, exp.Show):
                self._arrow_table = show.of(session, expression, self._arrow_table)
            return self._rowcount
        self.answer(answer)
        return answer.affected

    def _run_parts(self, expression: Expr, params: Any) -> None:
        for part in self._transform_explode(expression):
            transformed = self._transform(part, params)
            self._execute(transformed, params if transformed.find(exp.Placeholder) else None)

    def answer(self, answer: Answer) -> None:
        """Make `answer` this cursor's result."""
        self._arrow_table = answer.to_arrow()
        self._arrow_table_fetch_index = None
        count = len(answer.rows) if answer.affected is None else answer.affected
        sql = answer.describing_sql()
        tree = sqlglot.parse_one(sql, read="duckdb")
        self._rowcount, self._last_params = count, None  # type: ignore[assignment]
        self._last_sql, self._last_transformed = sql, tree  # type: ignore[assignment]

    def upload(self, base_url: str) -> dict[str, Any] | None:
        """For a PUT, what the client needs to upload the file to `base_url`; None for other statements.

        As fakesnow's server does it: the only store the connector uploads to over plain http is a presigned GCS url.
        """
        transformed = self._last_transformed
        data: dict[str, Any] | None = transformed.args.get("put_stage_data") if transformed is not None else None
        if transformed is None or data is None:
            return None
        target = Path(data["stageInfo"]["location"]) / Path(data["src_locations"][0]).name
        path = str(target.relative_to(self._conn.shared.engine.stages_dir))
        stage_info = {
            "locationType": "GCS",
            "location": f"{transformed.args['put_stage_name']}/",
            "creds": {},
            "presignedUrl": f"{base_url}{quote(path)}?signature={self._conn.shared.sign(path)}",
        }
        return {**data, "stageInfo": stage_info}


def _fakesnow_knows(command: exp.Command) -> bool:
    """Whether fakesnow handles a statement that sqlglot did not parse; else DuckDB would get it as it is."""
    text = " ".join(f"{command.this} {command.expression}".upper().split())
    return text.startswith(("SET ", "UNSET ", "EXPLAIN ", "SHOW USER FUNCTIONS", "ALTER TABLE"))


def _already_there(session: Session, statement: Statement) -> str | None:
    """Name of the table or view that CREATE ... IF NOT EXISTS finds; fakesnow would forget its load history."""
    create = statement.expression
    if not (isinstance(create, exp.Create) and create.args.get("exists") and create.kind in {"TABLE", "VIEW"}):
        return None
    for full_name in statement.targets():
        database, schema, name = full_name.split(".", 2)
        sql = "SELECT 1 FROM information_schema.tables WHERE table_catalog = ? AND table_schema = ? AND table_name = ?"
        if session.shared.engine.query(sql, [database, schema, name]):
            return name
    return None
