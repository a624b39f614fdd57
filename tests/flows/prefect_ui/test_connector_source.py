"""What the parameter `config` of the flow sink may be."""

import json
from pathlib import Path

import pytest

from firn.connector.parse import load_sink_config
from firn.errors import ConfigError
from firn.settings import Settings
from flows.prefect_ui import connector_source
from flows.prefect_ui.connector_source import connector_file

CONNECTOR = {"name": "orders", "config": {"topics": "a"}}
VARIABLES = {"orders_sink": CONNECTOR, "as_text": json.dumps(CONNECTOR), "leaky": {"snowflake.private.key": "hunter2"}}


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setattr(connector_source.Variable, "get", lambda name: VARIABLES.get(name))
    monkeypatch.setattr(connector_source, "read_text", lambda _settings, _address: json.dumps(CONNECTOR))
    return Settings(home=tmp_path)


@pytest.mark.parametrize("given", [json.dumps(CONNECTOR), "s3://connectors/orders.json", "orders_sink", "as_text"])
def test_each_source_is_a_connector(settings, given):
    assert load_sink_config(connector_file(given, settings)).name == "orders"


@pytest.mark.parametrize("given", ["connectors/order-events.json", "orders.properties", "unknown_name"])
def test_anything_else_is_a_path(settings, given):
    assert connector_file(given, settings) == Path(given)


def test_a_variable_with_a_credential_is_refused_without_it(settings):
    with pytest.raises(ConfigError, match="holds a credential") as refused:
        connector_file("leaky", settings)
    assert refused.value.where == "the Prefect variable leaky"
    assert "hunter2" not in str(refused.value)
