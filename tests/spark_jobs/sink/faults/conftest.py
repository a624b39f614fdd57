"""A ledger that nobody else uses: others may claim and delete sinks, and a new sink's first epoch is not 1 then."""

from __future__ import annotations

import pytest

from firn.settings import Settings
from tests.support.faults_checks import own_schema


@pytest.fixture(scope="session")
def own_ledger(settings: Settings) -> Settings:
    """Settings of a schema of these tests' own. Their runs have `**of_schema(own_ledger)`."""
    return own_schema(settings)
