"""The Prefect server of the stack, for flows that a test runs in its own process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def prefect_server(stack: Any) -> Iterator[None]:
    """Flow runs of this process belong to the stack's Prefect server."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: stack.settings.prefect_api_url}):
        yield
