"""All known parameters by name: the one table that checks, effective values and docs/configuration.md come from.

A table and not the fields of a pydantic model, because a model checks rules over several fields only once each field
is sound, and a file's faults are reported all at once; because defaults depend on the method and on the class of the
connector; because names come in families (`kafka.*`, `transforms.*`); and because most rows say why a parameter does
nothing here, and fill no field.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from firn.connector.parameter import Parameter
from firn.connector.parameters import connect, converters, loading, other_connectors, snowflake

_ALL = (
    *connect.CONNECT,
    *snowflake.LOGIN,
    *snowflake.TABLES,
    *loading.METHOD,
    *converters.CHOICE,
    *snowflake.METADATA,
    *connect.ERRORS,
    *snowflake.PROXY,
    *loading.FIRN,
    *other_connectors.CLOUD,
    *loading.STREAMING,
    *other_connectors.V4,
    *loading.SNOWPIPE,
    *converters.VALUE_OPTIONS,
    *converters.KEY_OPTIONS,
)

PARAMETERS: Mapping[str, Parameter] = MappingProxyType({parameter.name: parameter for parameter in _ALL})
