"""The versions of a subject as one description: what any record in the table may look like.

Rows were written with every version that a producer ever used. So a field that one version lacks is nullable, an enum
has the symbols of all, a field that the newest version dropped stays (nullable), and of two types the wider one counts;
where none is wider the values stay a VARIANT. Source: Avro's "Schema Resolution" for what is wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from firn.modelling.description import VARIANT, Array, Described, Field, Kind, Map, Record, Scalar, Type

_MAX_DIGITS = 38


def merged(versions: Sequence[Described]) -> Described:
    """One description for all versions, given oldest first; names, order and texts are the newest's."""
    return reduce(_merged, versions)


def _merged(old: Described, new: Described) -> Described:
    return Described(_type(old.type, new.type), old.nullable or new.nullable, old.versions + new.versions)


def _type(old: Type, new: Type) -> Type:
    match old, new:
        case Record(), Record():
            return _record(old, new)
        case Array(), Array():
            return Array(_type(old.items, new.items), old.nullable or new.nullable)
        case Map(), Map() if old.pairs == new.pairs:
            return replace(new, values=_type(old.values, new.values), nullable=old.nullable or new.nullable)
        case Scalar(), Scalar():
            return _scalar(old, new)
    return VARIANT


def _record(old: Record, new: Record) -> Record:
    before = {each.name: each for each in old.fields}
    kept = [_field(before.pop(each.name, None), each) for each in new.fields]
    dropped = [replace(each, nullable=True) for each in before.values()]
    return Record((*kept, *dropped), new.doc or old.doc)


def _field(old: Field | None, new: Field) -> Field:
    if old is None:
        return replace(new, nullable=True)
    return Field(new.name, _type(old.type, new.type), old.nullable or new.nullable, new.doc or old.doc)


def _scalar(old: Scalar, new: Scalar) -> Scalar:
    if old.kind is new.kind:
        return _same_kind(old, new)
    kinds = {old.kind, new.kind}
    if kinds == {Kind.INTEGER, Kind.FLOAT}:
        return Scalar(Kind.FLOAT)
    if kinds == {Kind.INTEGER, Kind.DECIMAL}:
        return Scalar(Kind.DECIMAL, _MAX_DIGITS, max(old.scale, new.scale))
    return VARIANT


def _same_kind(old: Scalar, new: Scalar) -> Scalar:
    more = tuple(each for each in old.symbols if each not in new.symbols)
    # An enum beside plain text is plain text.
    symbols = new.symbols + more if old.symbols and new.symbols else ()
    scale = max(old.scale, new.scale)
    whole = max(old.precision - old.scale, new.precision - new.scale)
    return replace(
        new,
        precision=min(_MAX_DIGITS, whole + scale),
        scale=scale,
        symbols=symbols,
        native=old.native and new.native,
    )
