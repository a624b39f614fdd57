"""Short ways to write definitions, so that each stands on few lines and tables of them can be read."""

from __future__ import annotations

from dataclasses import replace

from firn.connector.parameter import Effect, Parameter, Reader


def honoured(name: str, reader: Reader, doc: str, default: str | None = None, **more: object) -> Parameter:
    """A parameter that Firn follows. An empty text counts as absent, since exported files carry it."""
    return replace(Parameter(name, reader, doc, default, empty=True), **more)  # type: ignore[arg-type]


def no_effect(
    name: str, reader: Reader, doc: str, reason: str, default: str | None = None, *, secret: bool = False
) -> Parameter:
    """A parameter that is checked and changes nothing here."""
    return Parameter(name, reader, doc, default, effect=Effect.NO_EFFECT, reason=reason, secret=secret, empty=True)


def refused(name: str, reader: Reader, doc: str, reason: str, *, secret: bool = False) -> Parameter:
    """A parameter that cannot be followed and must not be ignored."""
    return Parameter(name, reader, doc, effect=Effect.REFUSED, reason=reason, secret=secret, empty=True)


def pending(
    name: str,
    reader: Reader,
    doc: str,
    default: str | None = None,
    *,
    secret: bool = False,
) -> Parameter:
    """A parameter that is checked in full and governs what cannot be run yet."""
    return Parameter(
        name,
        reader,
        doc,
        default,
        effect=Effect.PENDING,
        reason="Governs SNOWPIPE_STREAMING, which is still to come.",
        secret=secret,
        empty=True,
    )


def group(title: str, *parameters: Parameter) -> tuple[Parameter, ...]:
    """The parameters of one group, in the order of the documentation."""
    return tuple(replace(parameter, group=title) for parameter in parameters)
