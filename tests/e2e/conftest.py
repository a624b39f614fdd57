"""The stack's Prefect server, with everything deployed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_API_URL, temporary_settings


@pytest.fixture(scope="session")
def deployed(stack: Any) -> list[dict[str, Any]]:
    """Everything deployed, as `firn deploy --paused` tells it: no schedule starts anything beside other tests."""
    done = stack.run("deploy", "--paused", "--json", timeout=300)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def client(stack: Any) -> Iterator[SyncPrefectClient]:
    """Of the stack's Prefect server, in this process."""
    with temporary_settings({PREFECT_API_URL: stack.settings.prefect_api_url}), get_client(sync_client=True) as client:
        yield client
