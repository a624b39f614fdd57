"""The `firn` commands, one module for each family; each is a thin way into a flow or a room below.

These modules import nothing heavy at their top, so that `firn --help` stays quick.
"""

from collections.abc import Callable

import typer

from flows.commands import deploy, pipeline, produce, provision, sink, sql, stack, transform

COMMANDS: list[Callable[[typer.Typer], None]] = [
    stack.add,
    provision.add,
    produce.add,
    sink.add,
    transform.add,
    pipeline.add,
    sql.add,
    deploy.add,
]
