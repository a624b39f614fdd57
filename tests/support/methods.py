"""One suite, two methods: a test marked `both_methods` runs once with SNOWPIPE and once with SNOWPIPE_STREAMING.

`tests.support.sinks.connector` puts the method of the running test into each configuration. The streaming half is
`full`, unless the mark says `both_methods(quick=True)`. Not for tests about one method's own steps.
"""

from __future__ import annotations

import pytest

from firn.connector.config import Method

FIXTURE, MARK = "ingestion_method", "both_methods"
_STREAMING = {
    "snowflake.ingestion.method": str(Method.SNOWPIPE_STREAMING),
    "snowflake.streaming.max.client.lag": "0.05",
    "firn.ledger.seconds": "1",  # tests look at the ledger while sinks run
}
_chosen: dict[str, str] = {}


def of_running_test() -> dict[str, str]:
    """The parameters that choose the method of the test that runs; none for SNOWPIPE, the default."""
    return dict(_chosen)


def choose(method: Method) -> None:
    """Let configurations have this method from now on."""
    _chosen.clear()
    if method is Method.SNOWPIPE_STREAMING:
        _chosen.update(_STREAMING)


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Give a marked test its two methods."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None:
        return
    marks = () if mark.kwargs.get("quick") else (pytest.mark.full,)
    methods = [Method.SNOWPIPE, pytest.param(Method.SNOWPIPE_STREAMING, marks=marks)]
    metafunc.fixturenames.insert(0, FIXTURE)
    metafunc.parametrize(FIXTURE, methods, indirect=True, ids=["snowpipe", "streaming"])
