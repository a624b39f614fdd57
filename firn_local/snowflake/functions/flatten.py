"""FLATTEN with all its arguments: INPUT, PATH, OUTER, RECURSIVE, MODE; columns SEQ, KEY, PATH, INDEX, VALUE, THIS.

Source: https://docs.snowflake.com/en/sql-reference/functions/flatten. Differs from Snowflake: SEQ is the same for equal
inputs.
"""

from __future__ import annotations

from collections.abc import Callable

from fakesnow.dialect import parse_one
from sqlglot import Expr, exp

from firn_local.snowflake.functions.macros import call
from firn_local.snowflake.sql.sql_errors import SYNTAX, compilation_error

_NAMES = ("INPUT", "PATH", "OUTER", "RECURSIVE", "MODE")
_MODES = {"OBJECT", "ARRAY", "BOTH"}


def flattened(node: exp.Lateral | exp.TableFromRows) -> Expr | None:
    """LATERAL FLATTEN(...) and TABLE(FLATTEN(...)) as a table of DuckDB's."""
    if not isinstance(node.this, exp.Explode):
        return None
    given = _arguments(node.this)
    if "INPUT" not in given:
        raise compilation_error(SYNTAX, "FLATTEN wants INPUT => <expr>.")
    value, root = given["INPUT"], ""
    if path := _constant(given.get("PATH"), ""):
        extract = _path(value, path)
        value, root = extract, _shown(extract.expression)
    mode = _constant(given.get("MODE"), "BOTH").upper()
    if mode not in _MODES:
        raise compilation_error(SYNTAX, f"invalid value [{mode}] for parameter 'MODE' of FLATTEN")
    table = call(
        "flatten_all" if _flag(given.get("RECURSIVE")) else "flatten_each",
        exp.cast(value.copy(), "JSON"),
        exp.Literal.string(root),
        exp.true() if _flag(given.get("OUTER")) else exp.false(),
        exp.Literal.string(mode),
    )
    return exp.Table(this=table, alias=node.args.get("alias"), joins=node.args.get("joins"))


def _arguments(call: exp.Explode) -> dict[str, Expr]:
    """By name; those without a name are in the order of the documentation."""
    found: dict[str, Expr] = {}
    for name, each in zip(_NAMES, [call.this, *call.expressions], strict=False):
        if isinstance(each, (exp.Kwarg, exp.PropertyEQ)):
            found[each.this.name.upper()] = each.expression
        else:
            found[name] = each
    return found


def _constant(value: Expr | None, default: str) -> str:
    if value is None:
        return default
    if not (isinstance(value, exp.Literal) and value.is_string):
        raise compilation_error(SYNTAX, "PATH and MODE of FLATTEN are constant texts.")
    return value.name


def _flag(value: Expr | None) -> bool:
    return isinstance(value, exp.Boolean) and bool(value.this)


def _path(value: Expr, path: str) -> exp.JSONExtract:
    """The element of `value` at a path as GET_PATH has it."""
    quoted = path.replace("'", "''")
    extract = parse_one(f"SELECT GET_PATH(X, '{quoted}')").find(exp.JSONExtract)
    if not isinstance(extract, exp.JSONExtract):
        raise compilation_error(SYNTAX, f"invalid path '{path}' of FLATTEN")
    extract.set("this", value.copy())
    return extract


def _shown(path: Expr) -> str:
    """A path as the column PATH begins with it."""
    shown = ""
    for step in path.expressions:
        if isinstance(step, exp.JSONPathSubscript):
            shown += f"[{step.this}]"
        elif isinstance(step, exp.JSONPathKey):
            name = str(step.this)
            plain = name.replace("_", "a").isalnum()
            shown += (f".{name}" if shown else name) if plain else f"['{name}']"
    return shown


BY_NODE: dict[type[Expr], Callable[..., Expr | None]] = {exp.Lateral: flattened, exp.TableFromRows: flattened}
