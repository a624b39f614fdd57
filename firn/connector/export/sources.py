"""The sources of a file: which there are, of what kind, and each one's `SourceConfig`. Faults go into the check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from firn.connector.check import Check
from firn.connector.export.config import MaskConfig, QualityCheck, SourceConfig, SourceKind
from firn.connector.export.families import check_option, of_source
from firn.connector.export.parameters import SOURCE_PARAMETERS
from firn.connector.parameter import ReadError
from firn.connector.readers import NAME

SOURCES = "firn.export.sources"
_STREAM, _TABLE, _QUERY, _KEY = "snowflake.stream.name", "snowflake.table.name", "query", "message.key.columns"
_INCLUDE, _EXCLUDE = ("table.include.list", "table.whitelist"), ("table.exclude.list", "table.blacklist")
_INCREMENTING, _TIMESTAMP = "incrementing.column.name", "timestamp.column.name"
_CURSOR = "firn.export.cursor.columns"
_CURSOR_MODES = {
    "incrementing": (_INCREMENTING,),
    "timestamp": (_TIMESTAMP,),
    "timestamp+incrementing": (_TIMESTAMP, _INCREMENTING),
    "cursor": (_CURSOR,),
}
_KINDS = {
    "stream": SourceKind.STREAM,
    "tables": SourceKind.TABLES,
    "query": SourceKind.QUERY,
    "compare": SourceKind.COMPARED,
    **dict.fromkeys(_CURSOR_MODES, SourceKind.CURSOR),
}


@dataclass(frozen=True)
class _View:
    """The parameters of one source: its own, else those that stand alone in the file, else the defaults."""

    check: Check
    source: str

    def where(self, name: str) -> str:
        """The full name under which the file gives it; where it does not, the one to give."""
        own = [each for each in self.check.given if of_source(each) == (self.source, name)]
        return own[0] if own else name if self.check.has(name) or not self.check.has(SOURCES) else self._full(name)

    def has(self, name: str) -> bool:
        return self.check.has(self.where(name))

    def get(self, name: str) -> Any:
        given = self.check.given.get(self.where(name))
        if given is not None and given.value is not None:
            return given.value
        text = SOURCE_PARAMETERS[name].default
        return SOURCE_PARAMETERS[name].reader.parse(text) if text else None

    def first(self, names: Iterable[str]) -> Any:
        return next((self.get(name) for name in names if self.has(name)), None)

    def fault(self, name: str, problem: str, allowed: tuple[str, ...] = ()) -> None:
        self.check.fault(self.where(name), problem, allowed)

    def _full(self, name: str) -> str:
        return f"{SOURCES}.{self.source}.{name}"


def read_sources(check: Check) -> tuple[SourceConfig, ...]:
    """The sources of a file; in one without firn.export.sources a single one of the export's own name."""
    names = check.get(SOURCES) or (check.get("name") or "source",)
    if check.has(SOURCES):
        _check_names(check, names)
    return tuple(_source(_View(check, name)) for name in names)


def _check_names(check: Check, names: Iterable[str]) -> None:
    for name in names:
        try:
            NAME.parse(name)
        except ReadError as error:
            check.fault(SOURCES, f"names a source that {error.problem}")
    for given in check.given:
        source = of_source(given)
        if source and source[0] not in names:
            check.warn(given, f"has no effect: {SOURCES} does not name {source[0]}.")


def _source(view: _View) -> SourceConfig:
    mode = _mode(view)
    kind = _KINDS.get(mode, SourceKind.STREAM)
    names = view.get(_STREAM) if kind in (SourceKind.STREAM, SourceKind.QUERY) else view.get(_TABLE)
    _check_objects(view, mode, kind, names or ())
    _check_key(view, kind)
    keys = view.get(_KEY) or ()
    return SourceConfig(
        name=view.source,
        kind=kind,
        names=names or (),
        patterns=(view.first(_INCLUDE) or ()) if kind is SourceKind.TABLES else (),
        excluded=view.first(_EXCLUDE) or (),
        sql=view.get(_QUERY) if kind in (SourceKind.QUERY, SourceKind.COMPARED) else None,
        cursor_columns=tuple(column for name in _CURSOR_MODES.get(mode, ()) for column in view.get(name) or ()),
        key_columns=next((columns for table, columns in keys if not table), ()),
        keys=tuple((table, columns) for table, columns in keys if table),
        order_columns=view.get("firn.export.order.columns") or (),
        topic=_topic(view),
        include=view.get("column.include.list") or (),
        exclude=view.get("column.exclude.list") or (),
        masks=_masks(view),
        types=view.get("firn.export.types") or (),
        checks=_checks(view),
    )


def _mode(view: _View) -> str:
    """The mode that the file names, or that its parameters imply."""
    if (named := view.get("mode")) == "bulk":
        view.fault("mode", "would publish every row again each time", ("compare",))
        return "compare"
    if named:
        return str(named)
    implied = (
        ("query" if view.has(_STREAM) else "compare", view.has(_QUERY)),
        ("timestamp+incrementing", view.has(_TIMESTAMP) and view.has(_INCREMENTING)),
        ("timestamp", view.has(_TIMESTAMP)),
        ("incrementing", view.has(_INCREMENTING)),
        ("cursor", view.has(_CURSOR)),
        ("stream", view.has(_STREAM)),
    )
    return next((mode for mode, is_it in implied if is_it), "tables")


def _check_objects(view: _View, mode: str, kind: SourceKind, names: tuple[str, ...]) -> None:
    """What the mode reads is there, once, and nothing beside it."""
    match kind:
        case SourceKind.STREAM:
            if not view.has(_STREAM):
                view.fault(_STREAM, "is required with mode=stream, or snowflake.table.name with mode=tables")
            elif len(names) > 1:
                view.fault(_STREAM, f"names several streams: {SOURCES} gives each a source of its own")
        case SourceKind.TABLES:
            if not view.has(_TABLE) and not any(map(view.has, _INCLUDE)):
                view.fault(_TABLE, "is required, or snowflake.stream.name, table.include.list or query")
        case SourceKind.CURSOR:
            if len(names) != 1:
                view.fault(_TABLE, f"must name one table with mode={mode}")
            for name in _CURSOR_MODES[mode]:
                if not view.has(name):
                    view.fault(name, f"is required with mode={mode}")
            for name in (_TIMESTAMP, _INCREMENTING):
                if len(view.get(name) or ()) > 1:
                    view.fault(name, "names several columns: firn.export.cursor.columns orders by one after the other")
        case SourceKind.QUERY:
            for name in (_QUERY, _STREAM):
                if not view.has(name):
                    view.fault(name, "is required with mode=query")
        case SourceKind.COMPARED:
            if not view.has(_QUERY) and len(names) != 1:
                view.fault(_TABLE, "must name one table, or query the SQL, with mode=compare")
            if view.has(_QUERY) and not names:
                view.check.warn(
                    view.where(_QUERY),
                    "runs at every poll, and wakes the warehouse: give the tables that it reads as "
                    "snowflake.table.name, and it runs only when one of them changed.",
                )
    if view.has(_QUERY) and kind not in (SourceKind.QUERY, SourceKind.COMPARED):
        view.fault(_QUERY, f"cannot be used with mode={mode}")
    if any(map(view.has, _INCLUDE)) and kind is not SourceKind.TABLES:
        view.fault(next(filter(view.has, _INCLUDE)), f"cannot be used with mode={mode}")


def _check_key(view: _View, kind: SourceKind) -> None:
    if kind is SourceKind.COMPARED and view.has(_QUERY) and not view.has(_KEY):
        view.fault(_KEY, "is required with mode=compare: rows are compared by their key")


def _topic(view: _View) -> str:
    given, prefix = view.get("kafka.topic"), view.get("topic.prefix")
    if view.has("kafka.topic") and view.has("topic.prefix"):
        view.fault("topic.prefix", "is given beside kafka.topic: one of the two says the topic")
    if given:
        return str(given)
    if prefix:
        return f"{prefix}{{table}}"
    if not view.has("kafka.topic") and not view.has("topic.prefix"):
        view.fault("kafka.topic", "is required, or topic.prefix")
    return "{source}"


def _masks(view: _View) -> tuple[MaskConfig, ...]:
    kinds: tuple[Literal["hash", "replace", "truncate"], ...] = ("hash", "replace", "truncate")
    masks = [
        MaskConfig(
            view.get(f"firn.export.mask.{kind}"),
            kind,
            salt=view.get("firn.export.mask.salt") if kind == "hash" else None,
            text=view.get("firn.export.mask.text") if kind == "replace" else "",
            length=view.get("firn.export.mask.length") if kind == "truncate" else 0,
        )
        for kind in kinds
        if view.get(f"firn.export.mask.{kind}")
    ]
    if view.has("firn.export.mask.hash") and not view.has("firn.export.mask.salt"):
        view.fault("firn.export.mask.salt", "is required with firn.export.mask.hash: without it values can be guessed")
    return tuple(masks)


def _checks(view: _View) -> tuple[QualityCheck, ...]:
    return tuple(check for name in view.get("firn.export.checks") or () if (check := _check(view, name)))


def _check(view: _View, name: str) -> QualityCheck | None:
    expression, action = (f"firn.export.checks.{name}.{option}" for option in ("expression", "action"))
    if check_option(expression) is None:
        view.fault("firn.export.checks", f"names {name!r}, which is no name of a check")
        return None
    if not view.has(expression):
        view.fault(expression, "is required: firn.export.checks names it")
        return None
    given = view.check.given.get(view.where(action))
    text = view.check.given[view.where(expression)].value
    return QualityCheck(name, str(text or "TRUE"), given.value if given and given.value else "stop")
