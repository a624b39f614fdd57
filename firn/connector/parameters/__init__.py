"""All known parameters by name: the one table that parsing, effective values and docs/configuration.md come from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from firn.connector.parameter import Parameter
from firn.connector.parameters import connect, converters, loading, other_connectors, snowflake, v4

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
    *v4.V4,
    *loading.SNOWPIPE,
    *converters.VALUE_OPTIONS,
    *converters.KEY_OPTIONS,
)

PARAMETERS: Mapping[str, Parameter] = MappingProxyType({parameter.name: parameter for parameter in _ALL})
