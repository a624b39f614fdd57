"""Files with a credential that others can read are warned of; the credential is not shown."""

import json

import pytest

from firn.connector.file import read_connector_file
from firn.connector.parse import check_sink_config

KEY = "snowflake.private.key.passphrase"


def warnings(tmp_path, value, mode):
    file = tmp_path / "orders.json"
    config = {"topics": "a", "snowflake.private.key": "${secretsmanager:login:key}", KEY: value}
    file.write_text(json.dumps({"name": "orders", "config": config}))
    file.chmod(mode)
    checked = check_sink_config(read_connector_file(file), where=str(file))
    return [warned for warned in checked.warnings if warned.name == KEY and "chmod 600" in warned.reason]


@pytest.mark.parametrize(("mode", "count"), [(0o644, 1), (0o640, 1), (0o600, 0)])
def test_a_credential_in_the_connector_file(tmp_path, mode, count):
    found = warnings(tmp_path, "hunter2", mode)
    assert len(found) == count
    assert all("orders.json" in each.reason and "hunter2" not in each.reason for each in found)


@pytest.mark.parametrize(("mode", "count"), [(0o604, 1), (0o600, 0)])
def test_a_credential_in_a_file_that_is_referred_to(tmp_path, mode, count):
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("passphrase=hunter2\n")
    secrets.chmod(mode)
    found = warnings(tmp_path, f"${{file:{secrets}:passphrase}}", 0o644)
    assert len(found) == count
    assert all("secrets.properties" in each.reason and "hunter2" not in each.reason for each in found)


def test_a_reference_in_a_readable_file_is_no_credential(tmp_path, monkeypatch):
    monkeypatch.setenv("PASSPHRASE", "hunter2")
    assert warnings(tmp_path, "${env:PASSPHRASE}", 0o644) == []
