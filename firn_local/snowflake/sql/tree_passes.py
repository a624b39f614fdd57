"""Many passes over one syntax tree, as `sqlglot.Expr.transform` makes them, in half the time.

fakesnow passes some seventy times over the tree of each statement, which is most of what a short statement costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import Expr


class TreePasses:
    """A tree that stands in for an `Expr` in a chain of `.transform(...)`; `tree` is what came out."""

    def __init__(self, tree: Expr) -> None:
        self.tree = tree

    def transform(self, change: Callable[..., Expr], *, copy: bool = True, **options: Any) -> TreePasses:
        """Replace each node, from the root down, by what `change` makes of it; nothing below a new node is visited."""
        root: Expr | None = None  # what the first node becomes
        waiting = [self.tree.copy() if copy else self.tree]
        while waiting:
            node = waiting.pop()
            parent, key, index = node.parent, node.arg_key, node.index
            new = change(node, **options)
            if root is None:
                root = new
            elif new is not node and parent is not None and key:
                parent.set(key, new, index)
            if new is node:
                _push_children(node, waiting)
        self.tree = root or self.tree
        return self


def _push_children(node: Expr, waiting: list[Expr]) -> None:
    for value in reversed(node.args.values()):
        if isinstance(value, Expr):
            waiting.append(value)
        elif isinstance(value, list):
            waiting += [each for each in reversed(value) if isinstance(each, Expr)]
