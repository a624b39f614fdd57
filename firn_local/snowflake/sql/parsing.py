"""The tree of a statement, also where sqlglot or fakesnow wants another spelling: the same tree comes out.

CREATE INTERACTIVE TABLE is CREATE TABLE with a property; ALTER COLUMN with several columns has an action for each;
COPY GRANTS may stand
behind CLONE; quoted stage paths, `'@s/a--b/'`, stand bare in the tree.
"""

from __future__ import annotations

import sqlglot
from fakesnow.dialect import parse_one
from sqlglot import Expr, TokenType, exp
from sqlglot.tokenizer_core import Token

from firn_local.snowflake.sql.tokenizer import first_words

INTERACTIVE = "INTERACTIVE"
"""The property that stands for CREATE INTERACTIVE TABLE."""


def parse(sql: str) -> Expr:
    """The tree of a statement. Raises ProgrammingError (001003) for a fault of its grammar."""
    return _bare_stage_paths(_parse(sql))


def _parse(sql: str) -> Expr:
    if first_words(sql, 1) not in (("CREATE",), ("ALTER",)):
        return parse_one(sql)
    tokens = [t for t in sqlglot.tokenize(sql, read="snowflake") if t.token_type is not TokenType.SEMICOLON]
    words = [t.text.upper() for t in tokens[:5]]
    if words[:1] == ["CREATE"] and (at := _interactive(words)):
        return _create_interactive(sql, tokens[at])
    if words[:1] == ["CREATE"] and (clone := _create_clone(sql, tokens)) is not None:
        return clone
    if words[:2] == ["ALTER", "TABLE"] and (parts := _alter_column_parts(sql, tokens)):
        alter, *others = (parse_one(part) for part in parts)
        for other in others:
            for action in other.args["actions"]:
                alter.append("actions", action)
        return alter
    return parse_one(sql)


def _bare_stage_paths(tree: Expr) -> Expr:
    """`tree`, changed in place: fakesnow wants stage paths without the quotes that let a path hold spaces or `--`."""
    if isinstance(tree, exp.Put):
        target = tree.args["target"]
        target.set("this", target.name.strip("'"))
    if isinstance(tree, exp.Copy):
        for table in tree.find_all(exp.Table):
            if isinstance(table.this, exp.Literal) and table.name.startswith("@"):
                table.set("this", exp.Var(this=table.name))
    return tree


def _interactive(words: list[str]) -> int:
    """Where INTERACTIVE stands in CREATE [OR REPLACE] INTERACTIVE TABLE; 0 if it does not."""
    at = 3 if words[1:3] == ["OR", "REPLACE"] else 1
    return at if words[at : at + 2] == ["INTERACTIVE", "TABLE"] else 0


def _create_interactive(sql: str, word: Token) -> Expr:
    create = parse_one(sql[: word.start] + sql[word.end + 1 :])
    properties = create.args.get("properties") or exp.Properties(expressions=[])
    properties.append("expressions", exp.Property(this=exp.var(INTERACTIVE), value=exp.true()))
    create.set("properties", properties)
    return create


def _create_clone(sql: str, tokens: list[Token]) -> Expr | None:
    """CREATE ... CLONE t COPY GRANTS [COPY TAGS]; None where nothing stands behind a clone."""
    texts = [token.text.upper() for token in tokens]
    end = len(texts)
    while texts[end - 2 : end] in (["COPY", "GRANTS"], ["COPY", "TAGS"]):
        end -= 2
    if end == len(texts) or "CLONE" not in texts[:end]:
        return None
    create = parse_one(sql[: tokens[end - 1].end + 1])
    if "GRANTS" in texts[end:]:
        properties = create.args.get("properties") or exp.Properties(expressions=[])
        properties.append("expressions", exp.CopyGrantsProperty())
        create.set("properties", properties)
    return create


def _alter_column_parts(sql: str, tokens: list[Token]) -> list[str]:
    """ALTER TABLE t ALTER [(] [COLUMN] a ..., [COLUMN] b ... [)] as one statement a column; empty for anything else."""
    verb = next((i for i, t in enumerate(tokens[2:9], 2) if t.text.upper() in {"ALTER", "MODIFY"}), 0)
    rest = tokens[verb + 1 :]
    if not (verb and rest) or tokens[verb].token_type is TokenType.IDENTIFIER:
        return []
    if rest[0].token_type is TokenType.L_PAREN and rest[-1].token_type is TokenType.R_PAREN:
        rest = rest[1:-1]
    head = sql[: tokens[verb].start]
    return [f"{head} ALTER {sql[piece[0].start : piece[-1].end + 1]}" for piece in _at_commas(rest) if piece]


def _at_commas(tokens: list[Token]) -> list[list[Token]]:
    pieces: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if token.token_type is TokenType.COMMA and depth == 0:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return pieces
