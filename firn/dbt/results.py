"""What a run of dbt did, read from the artifacts it leaves, and the error its failures become. Runs nothing.

Formats: https://docs.getdbt.com/reference/artifacts/run-results-json and manifest-json.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firn.dbt.contracts import missing_contract
from firn.errors import TerminalError, TransientError

COLUMNS = ("name", "kind", "status", "rows", "seconds", "message")

_FAILED = {"error", "fail", "runtime error", "partial success"}
# The driver's own numbers for a connection that failed (snowflake.connector.errorcode; 290nnn: HTTP status nnn).
_CONNECTION_LOST = re.compile(r"^\s*(25000[1235]|25101[12]|290\d{3})( \(.*?\))?: ", re.MULTILINE)


@dataclass(frozen=True)
class NodeResult:
    """The result of one model or test.

    `kind` is dbt's resource type (model, test, source, ...); `status` dbt's word (success, pass, warn, error, fail,
    skipped); `rows` how many rows a table or incremental model wrote (None where Snowflake does not say), or failed a
    test; `query` the file of the compiled statement; `message` is empty where all went well.
    """

    name: str
    kind: str
    status: str
    rows: int | None
    seconds: float
    message: str
    query: Path | None = None

    @property
    def failed(self) -> bool:
        """Whether a person has to look at it."""
        return self.status in _FAILED


@dataclass(frozen=True)
class TransformResult:
    """What one run of dbt did, in the order in which the nodes ended."""

    nodes: tuple[NodeResult, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many nodes ended with each status."""
        return dict(Counter(node.status for node in self.nodes))

    @property
    def failed(self) -> tuple[NodeResult, ...]:
        """The nodes that a person has to look at."""
        return tuple(node for node in self.nodes if node.failed)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each node with COLUMNS, for tables and JSON."""
        return [{column: getattr(node, column) for column in COLUMNS} for node in self.nodes]


class TransformError(TerminalError):
    """Models or tests failed; `result` holds all nodes of the run (None after pickling)."""

    result: TransformResult | None = None


class TransformInterruptedError(TransientError):
    """The connection to Snowflake broke in mid-run; `result` as in TransformError."""

    result: TransformResult | None = None


def read_result(target: Path) -> TransformResult:
    """The result of the last run that wrote its artifacts to `target`."""
    manifest = json.loads((target / "manifest.json").read_text())
    nodes = manifest["nodes"] | manifest.get("unit_tests", {})
    results = json.loads((target / "run_results.json").read_text())["results"]
    # dbt lists exposures too, which it does nothing for.
    listed = [(nodes.get(each["unique_id"]), each) for each in results]
    return TransformResult(tuple(_node(node, each) for node, each in listed if node is not None))


def failure(result: TransformResult, where: str) -> TransformError | TransformInterruptedError:
    """The error that names each failed node of a run and what to do next."""
    lines = [f"{node.kind} {node.name}: {node.message or node.status}" for node in result.failed]
    what = f"dbt failed in {len(result.failed)} of {len(result.nodes)} nodes:\n" + "\n".join(lines)
    error: TransformError | TransformInterruptedError
    if all(connection_lost(node.message) for node in result.failed):
        error = TransformInterruptedError(what, where=where, next_step="Run it again: what is done is not done twice.")
    else:
        error = TransformError(what, where=where, next_step=_next_step(result.failed))
    error.result = result
    return error


def connection_lost(text: str) -> bool:
    """Whether dbt's message is the driver's for a connection that failed."""
    return _CONNECTION_LOST.search(text) is not None


def _node(node: Mapping[str, Any], result: Mapping[str, Any]) -> NodeResult:
    status = result["status"]
    return NodeResult(
        name=node["name"],
        kind=node["resource_type"],
        status=status,
        rows=_rows(node, result),
        seconds=round(result["execution_time"], 2),
        message="" if status in ("success", "pass") else (result["message"] or "").strip(),
        query=Path(node["compiled_path"]) if node.get("compiled_path") else None,
    )


def _rows(node: Mapping[str, Any], result: Mapping[str, Any]) -> int | None:
    if node["resource_type"] == "test":
        found: int | None = result["failures"]
        return found
    # The driver's statistics of the statement. Its row count is no substitute: CREATE TABLE AS answers with one row.
    answer = result["adapter_response"]
    counts = [answer[key] for key in ("rows_inserted", "rows_updated") if answer.get(key) is not None]
    return sum(counts) if counts else None


def _next_step(failed: tuple[NodeResult, ...]) -> str:
    tests = [f'firn sql "$(cat {node.query})"' for node in failed if node.status == "fail"]
    if tests:
        return "See the rows that fail: " + " ; ".join(tests)
    if hints := [hint for node in failed if (hint := missing_contract(node.name, node.message))]:
        return " ".join(hints)
    if all(node.kind == "source" for node in failed):
        return "Look at the sinks of these tables: `firn sink status`. How old a row may be: the source's freshness."
    return f"Correct the model or its data and run again. Compiled: {_files(failed)}."


def _files(nodes: tuple[NodeResult, ...]) -> str:
    return ", ".join(str(node.query) for node in nodes if node.query) or "none"
