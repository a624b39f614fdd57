"""Forms for the parameters of flows: puts each description where Prefect's UI finds it. Not for what they mean (flows).

Prefect takes them from the docstring's `Args:` and ignores a description in `Annotated[..., Field(...)]`, where it
stands beside type and limits (3.8.8, `prefect._internal.pydantic.v2_schema.process_v2_params`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, get_type_hints

from pydantic.fields import FieldInfo

P = ParamSpec("P")
R = TypeVar("R")


def described(function: Callable[P, R]) -> Callable[P, R]:
    """Give a function's docstring the `Args:` that its annotations describe; below `@flow`."""
    hints = get_type_hints(function, include_extras=True)
    lines = [f"    {name}: {text}" for name in inspect.signature(function).parameters if (text := _text(hints[name]))]
    function.__doc__ = "\n".join([inspect.getdoc(function) or "", "", "Args:", *lines])
    return function


def _text(hint: Any) -> str:
    fields = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, FieldInfo)]
    return next((field.description for field in fields if field.description), "")
