"""How one statement runs: found by the dispatcher, allowed, inside its transaction, failing with Snowflake errors only.

A fakesnow cursor under the session's rules. What a statement does is its family's (`family`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
from fakesnow import info_schema
from fakesnow.cursor import FakeSnowflakeCursor
from fakesnow.statement_type import DML_TYPE_IDS, statement_type_id
from sqlglot import Expr, exp

from firn_local.snowflake.change_tracking.recorder import Touched, UnknownRowsError
from firn_local.snowflake.engine import (
    column_values,
    context_functions,
    object_changes,
    object_tags,
    positional_columns,
    stream_reads,
    task_history,
    temporary_objects,
    touched_rows,
    usage_views,
)
from firn_local.snowflake.engine.family import Dispatcher, Handler
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.functions import rewriting
from firn_local.snowflake.privileges import enforcement, requirements
from firn_local.snowflake.privileges.requirements import Needs
from firn_local.snowflake.sql import parsing
from firn_local.snowflake.sql.result_set import NUMBER, ResultSet
from firn_local.snowflake.sql.sql_errors import to_snowflake
from firn_local.snowflake.sql.statement import Kind, Statement
from firn_local.snowflake.sql.tokenizer import replace_outside_quotes
from firn_local.snowflake.sql.tree_passes import TreePasses
from firn_local.snowflake.transactions.locks import Claim, columns_of
from firn_local.snowflake.transactions.read_committed import Tables


class Cursor(FakeSnowflakeCursor):
    """Runs statements of one session and holds the last result."""

    _conn: Session

    def __init__(self, session: Session, dispatcher: Dispatcher) -> None:
        super().__init__(conn=session, duck_conn=session.duck)
        self._dispatcher = dispatcher
        self.statement_type = 0
        self._query_id = str(uuid.uuid4())
        self._answered: ResultSet | None = None
        self._touches_any_row = False

    def execute(self, command: str, params: Any = None, *_: Any, query_id: str | None = None, **kwargs: Any) -> Cursor:
        """Run one statement. Raises ProgrammingError with Snowflake's errno and sqlstate for every fault."""
        self._query_id = query_id or str(uuid.uuid4())
        try:
            with self._conn.account.meter.statement(self._conn, command, self._query_id) as self._metered:
                sql = replace_outside_quotes(command, self._inline_variables)
                self._run(sql, kwargs.get("binding_params") or params)
                self._metered.rows = self._rowcount
        except Exception as error:
            failure = to_snowflake(error, command)
            self._sqlstate = failure.sqlstate  # type: ignore[assignment]  # fakesnow sets None at first
            raise failure from error
        finally:
            self._conn.last_query_id = self._query_id
        return self

    def _run(self, sql: str, params: Any) -> None:
        session = self._conn
        self.statement_type = 0
        if (command := self._dispatcher.command(sql)) is not None:
            self._answer(command(session, sql))
            return
        expression = parsing.parse(sql)
        self.statement_type = statement_type_id(expression)
        statement = Statement(sql, expression, session.database, session.schema)
        handler = self._dispatcher.handler(statement)
        kind = handler.kind or statement.kind
        if kind is Kind.DDL and object_changes.nothing_to_drop(session, statement):
            self._answer(ResultSet.status("Drop statement executed successfully."))
            return
        needs = self._check(statement, handler)
        session.account.meter.runs(self._metered, statement, needs.tables, params)
        self._run_as(kind, statement, handler, params)

    def _check(self, statement: Statement, handler: Handler) -> Needs:
        needs = requirements.needs_of(statement, handler.needs)
        needs = replace(needs, objects=(*needs.objects, *stream_reads.needs(self._conn, statement)))
        enforcement.check(self._conn, needs)
        return needs

    def _run_as(self, kind: Kind, statement: Statement, handler: Handler, params: Any) -> None:
        session = self._conn

        def work() -> ResultSet | None:
            return handler.run(session, statement, _Execution(self, statement, params))

        match kind:
            case Kind.DDL:
                streams = stream_reads.consumed_by(session, statement, kind)
                change = partial(object_changes.change, session, statement, self._query_id, work)
                self._answer(stream_reads.consume_beside(session, streams, self._query_id, change))
            case Kind.QUERY | Kind.APPEND | Kind.CHANGE:
                self._run_in_transaction(kind, statement, work)
            case Kind.SESSION:
                self._answer(work())

    def _run_in_transaction(self, kind: Kind, statement: Statement, work: Callable[[], ResultSet | None]) -> None:
        session, query_id = self._conn, self._query_id
        writes: frozenset[str] = frozenset() if kind is Kind.QUERY else statement.targets()
        if writes and not session.parameters["AUTOCOMMIT"]:
            session.transactions.begin()

        consumed = stream_reads.consumed_by(session, statement, kind)
        locked = {*(writes if kind is Kind.CHANGE else ()), *(stream.name for stream in consumed)}

        def lock(transaction: str) -> None:
            for name in sorted(locked):
                session.lock(name, Claim(transaction, query_id))
            stream_reads.refuse_outrun(session, consumed)

        place = (session.database, session.schema)

        def counted() -> int | None:
            with session.at(place):
                self._answer(self._logged(kind, statement, writes, work))
                for stream in consumed:
                    session.recorder.consume(stream.id, stream.database)
                return self._rowcount

        reads = statement.reads() | columns_of(writes)
        session.transactions.run(counted, Tables(reads, writes, lock))

    def _logged(
        self, kind: Kind, statement: Statement, writes: frozenset[str], work: Callable[[], ResultSet | None]
    ) -> ResultSet | None:
        """Run a statement; where it changes rows of a tracked table, what it changes goes into that table's log."""
        session = self._conn
        tables = [table for name in writes if (table := session.account.tracked.named(name)) is not None]
        if kind is not Kind.CHANGE or not tables or writes & session.temporary:
            return work()
        (table,) = tables
        try:
            return session.recorder.change(table, self._touched(statement), work)
        except UnknownRowsError as error:
            self._touches_any_row = True
            raise duckdb.TransactionException("The statement is run again with all rows logged.") from error

    def _touched(self, statement: Statement) -> Touched:
        updates, sets = touched_rows.updates(statement), touched_rows.set_columns(statement)
        query = None if self._touches_any_row else touched_rows.query(statement)
        if query is None:
            return Touched(None, updates, sets)
        execution = _Execution(self, replace(statement, expression=query), None)
        return Touched(execution.translated(execution.rewritten()).sql(dialect="duckdb"), updates, sets)

    def _answer(self, answer: ResultSet | None) -> None:
        """Make `answer` this cursor's result; without one that of the last execution stays."""
        if answer is None:
            return
        self._arrow_table = answer.to_arrow()
        self._arrow_table_fetch_index = None
        self._rowcount = len(answer.rows) if answer.affected is None else answer.affected  # type: ignore[assignment]
        self._last_sql = self._last_params = self._last_transformed = None
        self._answered = answer

    def described_without_running(self, sql: str) -> list[Any] | None:
        """The columns of a query, for those who may run it; None for what must run to be described."""
        statement = Statement(sql, parsing.parse(sql), self._conn.database, self._conn.schema)
        self._check(statement, self._dispatcher.handler(statement))
        return super()._describe_only(sql)

    def translation(self, expression: Expr) -> Expr:
        """What DuckDB would get for a statement, which does not run."""
        statement = Statement("", expression, self._conn.database, self._conn.schema)
        execution = _Execution(self, statement, None)
        return execution.translated(execution.rewritten())

    @property
    def result(self) -> pa.Table | None:
        """The rows of the last result."""
        return self._arrow_table

    def described(self) -> list[Any]:
        """The columns of the last result, as DuckDB's DESCRIBE has them."""
        return self._describe_last_sql()

    def _describe_last_sql(self) -> list[Any]:
        """What fakesnow asks DuckDB for; known without asking where the result is a family's, or counts of rows."""
        if self._answered is not None:
            return self._answered.described()
        if self.statement_type in DML_TYPE_IDS and self._arrow_table is not None:
            return ResultSet([(name, NUMBER) for name in self._arrow_table.column_names], []).described()
        return super()._describe_last_sql()

    @property
    def translated_statement(self) -> Expr | None:
        """The tree that DuckDB got last."""
        return self._last_transformed


class _Execution:
    """One statement on its way through DuckDB (`family.Execution`)."""

    def __init__(self, cursor: Cursor, statement: Statement, params: Any) -> None:
        self._cursor, self._statement = cursor, statement
        self.params = dict(params) if isinstance(params, dict) else None if params is None else list(params)

    def rewritten(self) -> Expr:
        """A copy of the tree as DuckDB shall find names, positions, values and functions."""
        session, statement = self._cursor._conn, self._statement
        tree = usage_views.resolved(session, statement.expression.copy())
        tree = task_history.resolved(session, tree)
        tree = temporary_objects.localise(session, stream_reads.resolved(session, tree))
        tree = positional_columns.paths(positional_columns.named(session, tree))
        tree = column_values.short_casts(column_values.fitted(session, tree, statement))
        tree = context_functions.wide_numbers(context_functions.variants(tree))
        tree = context_functions.of_objects(session, context_functions.fill_in(session, tree))
        tree = object_tags.filled_in(session, tree)
        self._cursor.check_db_and_schema(tree)
        return rewriting.rewritten(tree)

    def translated(self, tree: Expr) -> Expr:
        """The tree in DuckDB's dialect."""
        passes: Any = TreePasses(tree)  # in the place of the tree, for the chain of fakesnow's passes
        self._cursor._transform(passes, self.params)
        translated: Expr = passes.tree
        return translated

    def run(self, tree: Expr) -> None:
        """Run the tree as fakesnow does; its result is the cursor's."""
        self._cursor._answered = None
        for part in self._cursor._transform_explode(tree):
            translated = self.translated(part)
            params = self.params if translated.find(exp.Placeholder) else None
            if isinstance(translated, exp.Create) and self._cursor._conn.recorder.moves_beside:
                self._create_and_move(tree, translated, params)
            else:
                self._cursor._execute(translated, params)
        temporary_objects.remember(self._cursor._conn, tree)

    def _create_and_move(self, tree: Expr, translated: Expr, params: Any) -> None:
        """CREATE TABLE AS and moving the streams that it reads, in one transaction. What fakesnow keeps in a database
        of its own follows: DuckDB writes to one database in a transaction.
        """
        session = self._cursor._conn
        comment, lengths = (translated.args.pop(key, None) for key in ("table_comment", "text_lengths"))
        (full_name,) = self._statement.targets()
        is_temporary = bool(tree.args.get("_temporary"))
        with session.recorder.moving("" if is_temporary else full_name.partition(".")[0]):
            self._cursor._execute(translated, params)
        database, schema, name = full_name.split(".", 2)
        if comment and comment[1] and not is_temporary:
            session.duck.execute(info_schema.insert_table_comment_sql(database, schema, name, comment[1]))
        if lengths and not is_temporary:
            session.duck.execute(info_schema.insert_text_lengths_sql(database, schema, name, lengths))

    def filter_result(self, keep: Callable[[pa.Table], pa.Table]) -> None:
        """Replace the rows of the result by those that `keep` leaves."""
        if self._cursor._arrow_table is not None:
            self._cursor._arrow_table = keep(self._cursor._arrow_table)
