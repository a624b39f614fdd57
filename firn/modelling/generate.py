"""The generator: the models of a subject, as files of a dbt project. Asks nobody but its arguments.

`registered` describes the versions of a subject; `generated` gives the files. Not for writing them (`files`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources

from referencing.exceptions import Unresolvable

from firn.errors import ConfigError
from firn.modelling.avro import describe_avro
from firn.modelling.columns import tables_of
from firn.modelling.description import Described
from firn.modelling.json_schema import describe_json_schema
from firn.modelling.overrides import Overrides
from firn.modelling.properties import mart_yaml, source_yaml, staging_yaml
from firn.modelling.protobuf import describe_protobuf
from firn.modelling.sql import Names, mart_sql, staging_sql
from firn.modelling.versions import merged
from firn.registry.avro_schema import parse
from firn.registry.protobuf_schema import comments, root_file
from firn.registry.schemas import InvalidSchemaError, RegisteredSchema
from firn.snowflake.identifiers import table_for


def described(subject: str, versions: Sequence[tuple[int, RegisteredSchema]], message: str | None = None) -> Described:
    """What records of any version look like. message: of a Protobuf file, its first by default.

    Raises ConfigError for a schema that nothing can be read from.
    """
    found = []
    for version, schema in versions:
        where = f"subject {subject}, version {version}"
        try:
            one = _described(schema, where, message)
        except (InvalidSchemaError, ValueError, KeyError, TypeError, Unresolvable, RecursionError) as error:
            raise ConfigError(
                f"The schema cannot be read: {error}", where=where, next_step="Correct it in the registry."
            ) from error
        found.append(Described(one.type, one.nullable, (version,)))
    return merged(found)


def _described(schema: RegisteredSchema, where: str, message: str | None) -> Described:
    match schema.kind:
        case "AVRO":
            parse(schema.text, where=where)
            return describe_avro(schema.text)
        case "JSON":
            return describe_json_schema(schema)
        case "PROTOBUF":
            return describe_protobuf(root_file(schema), message, comments(schema))
    raise ConfigError(f"Schemas of type {schema.kind} have no fields.", where=where, next_step="Name another subject.")


def folder(subject: str) -> str:
    """The folder of a project that holds the models of a subject, and nothing else."""
    return f"models/firn/{base_name(subject)}"


def generated(subject: str, found: Described, place: tuple[str, str], overrides: Overrides) -> dict[str, str]:
    """The files, by their paths in a dbt project: source, staging views, marts, and the macros that they use.

    place: database and schema of the sink's table. Raises ConfigError for overrides that do not fit.
    """
    base = base_name(subject)
    table_name = overrides.table or table_for(subject.removesuffix("-value"), ())
    names = Names(subject, base, overrides.source, _snake(table_name))
    tables, inside = tables_of(found, overrides), folder(subject)
    files = {
        f"{inside}/_{base}__source.yml": source_yaml(names, table_name, place, overrides),
        f"{inside}/_{base}__staging.yml": staging_yaml(tables, names),
        f"{inside}/_{base}__marts.yml": mart_yaml(tables, names),
    }
    for table in tables:
        staging = staging_sql(table, names, found.type, typed=overrides.typed_columns)
        files[f"{inside}/{names.staging(table)}.sql"] = staging
        files[f"{inside}/{names.mart(table)}.sql"] = mart_sql(table, names)
    return files | macros()


@cache
def macros() -> dict[str, str]:
    """The macros that generated models and tests use, by their paths in a dbt project."""
    folder = resources.files("firn.modelling") / "macros"
    found = sorted((each for each in folder.iterdir() if each.name.endswith(".sql")), key=lambda each: each.name)
    return {f"macros/firn/{each.name}": each.read_text(encoding="utf-8") for each in found}


def base_name(subject: str) -> str:
    """What a subject's models are named after: `order-events-value` gives order_events."""
    return _snake(subject.rpartition(":")[2].removesuffix("-value"))


def _snake(name: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "subject"
    return f"_{words}" if words[0].isdigit() else words
