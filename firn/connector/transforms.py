"""Single message transforms: HoistField wraps a whole key or value into one field. Others are refused by name."""

from __future__ import annotations

from firn.connector.outcome import Check

_PACKAGE = "org.apache.kafka.connect.transforms."
HOIST = {f"{_PACKAGE}HoistField$Key": "key", f"{_PACKAGE}HoistField$Value": "value"}


def hoisted(check: Check) -> dict[str, tuple[str, ...]]:
    """The fields of HoistField for key and value, the first transform's (the innermost) first."""
    fields: dict[str, list[str]] = {"key": [], "value": []}
    names = check.get("transforms") or ()
    if check.has("transforms") and check.given["transforms"].referenced:
        check.fault("transforms", "must not be a reference: its names are parts of other parameters' names")
        names = ()
    if check.get("predicates"):
        check.fault("predicates", "names a predicate, and predicates are not supported: leave it out")
    for name in names:
        side, field = _hoist(check, f"transforms.{name}")
        if side and field:
            fields[side].append(field)
    _unused(check, names)
    return {side: tuple(found) for side, found in fields.items()}


def _hoist(check: Check, prefix: str) -> tuple[str | None, str | None]:
    type_name, field_name = f"{prefix}.type", f"{prefix}.field"
    if not check.has(type_name):
        check.fault(type_name, "is required: transforms names it", tuple(HOIST))
        return None, None
    kind = check.given[type_name].value
    if kind is None:
        return None, None
    if kind not in HOIST:
        check.fault(type_name, "is a transform that is not supported; do this in dbt or before Kafka", tuple(HOIST))
        return None, None
    if not check.has(field_name):
        check.fault(field_name, "is required by HoistField")
        return None, None
    for name in check.given:
        if name.startswith(f"{prefix}.") and name not in (type_name, field_name):
            check.fault(name, "is not an option of HoistField that is supported")
    return HOIST[kind], check.given[field_name].value


def _unused(check: Check, names: tuple[str, ...]) -> None:
    for name in check.given:
        family, _, rest = name.partition(".")
        if family == "transforms" and rest and not any(rest.startswith(f"{known}.") for known in names):
            check.warn(name, "has no effect: transforms does not name it.")
        elif family == "predicates" and rest:
            check.warn(name, "has no effect: predicates are not supported.")
