"""FLATTEN with all its arguments: INPUT, PATH, OUTER, RECURSIVE, MODE; columns SEQ, KEY, PATH, INDEX, VALUE, THIS.

Source: https://docs.snowflake.com/en/sql-reference/functions/flatten. DuckDB flattens equal inputs once, so where a
query asks for SEQ the rows that are flattened get numbers first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from fakesnow.dialect import parse_one
from sqlglot import Expr, exp

from firn_local.snowflake.functions.macros import call
from firn_local.snowflake.sql.sql_errors import SYNTAX, compilation_error

_NAMES = ("INPUT", "PATH", "OUTER", "RECURSIVE", "MODE")
_MODES = {"OBJECT", "ARRAY", "BOTH"}
_NUMBERED = "firn_numbered"


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
        _input_row(node),
    )
    return exp.Table(this=table, alias=node.args.get("alias"), joins=node.args.get("joins"))


def _input_row(node: Expr) -> Expr:
    """The number of the row whose value is flattened; 1 where the query does not ask for it."""
    select = node.find_ancestor(exp.Select)
    from_ = select.args.get("from_") if select is not None else None
    if select is None or from_ is None or not _asks_for_seq(select):
        return exp.Literal.number(1)
    sources = [each.this for each in (from_, *(select.args.get("joins") or []))]
    numbers = [
        _number(select, source, place)
        for place, source in enumerate(itertools.takewhile(lambda s: s is not node, sources))
    ]
    if not numbers:
        return exp.Literal.number(1)
    if len(numbers) == 1:
        return numbers[0]
    return exp.cast(exp.Anonymous(this="hash", expressions=numbers), "INT128")


def _asks_for_seq(select: exp.Select) -> bool:
    return select.is_star or any(column.name.upper() == "SEQ" for column in select.find_all(exp.Column))


def _number(select: exp.Select, source: Expr, place: int) -> Expr:
    """What tells the rows of a source apart: the path of another FLATTEN, or a number that they are given here."""
    alias = source.alias_or_name
    if isinstance(source, (exp.Lateral, exp.TableFromRows)):
        return exp.column("path", table=alias)
    name = f"firn_row_{place}"
    if not source.meta.get(_NUMBERED):
        inner = source.copy()
        inner.set("alias", None)
        numbered = exp.select("*", exp.alias_(exp.Window(this=exp.RowNumber()), name)).from_(inner)
        outer = exp.Subquery(this=numbered, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=False)))
        outer.meta[_NUMBERED] = True
        source.replace(outer)
        for star in _stars(select, alias):
            star.set("except_", [*(star.args.get("except_") or []), exp.column(name)])
    return exp.column(name, table=alias)


def _stars(select: exp.Select, alias: str) -> list[exp.Star]:
    """The stars of a query that stand for the columns of a source."""
    found = [each.this if isinstance(each, exp.Column) else each for each in select.expressions]
    return [
        star
        for star in found
        if isinstance(star, exp.Star)
        and (not isinstance(star.parent, exp.Column) or star.parent.table.upper() == alias.upper())
    ]


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
