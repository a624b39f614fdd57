"""The `firn` commands, one module for each family; each is a thin way into a flow or a room below."""

from collections.abc import Callable

import typer

COMMANDS: list[Callable[[typer.Typer], None]] = []
