"""Overrides and inline connectors: checked like a file, written down without credentials, read anew with their base."""

import json

import pytest

from firn.connector.file import read_connector_file
from firn.connector.overrides import FOLDER, inline_file, overlay, parse_overrides
from firn.connector.parse import load_sink_config
from firn.errors import ConfigError


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def base(tmp_path):
    file = tmp_path / "orders.json"
    file.write_text(json.dumps({"name": "orders", "config": {"topics": "a", "tasks.max": "1"}}))
    return file


def test_an_override_replaces_a_parameter_and_the_base_is_read_each_time(home, base):
    file = overlay(home, base, parse_overrides(["tasks.max=3", "topics=a,b=c"]))
    assert read_connector_file(file) == {"name": "orders", "topics": "a,b=c", "tasks.max": "3"}
    base.write_text(json.dumps({"name": "later", "config": {"topics": "a"}}))
    assert read_connector_file(file)["name"] == "later"
    assert file.stat().st_mode & 0o077 == 0


def test_no_override_changes_nothing(home, base):
    assert overlay(home, base, {}) == base
    assert not (home / FOLDER).exists()


def test_an_override_is_checked_as_the_file_is(home, base):
    with pytest.raises(ConfigError, match=r"tasks\.max"):
        load_sink_config(overlay(home, base, parse_overrides(["tasks.max=many"])))


@pytest.mark.parametrize(
    ("pairs", "fault"),
    [
        (["tasks.max"], "is not name=value"),
        (["=1"], "is not name=value"),
        (["tasks.max=1", "tasks.max=2"], "is given twice"),
        (["task.max=hunter2"], "Do you mean tasks.max"),
        (["snowflake.private.key=hunter2"], "holds a credential"),
        (["kafka.sasl.jaas.config=hunter2"], "holds a credential"),
        (["value.converter.basic.auth.user.info=a:hunter2"], "holds a credential"),
        (["jvm.proxy.password=x${env:A}hunter2"], "holds a credential"),
    ],
)
def test_what_is_no_override_is_refused_without_its_value(pairs, fault):
    with pytest.raises(ConfigError, match=fault) as refused:
        parse_overrides(pairs)
    assert "hunter2" not in str(refused.value)


def test_a_reference_to_a_credential_may_be_given():
    assert parse_overrides(["snowflake.private.key=${env:KEY}"]) == {"snowflake.private.key": "${env:KEY}"}


def test_an_inline_connector_becomes_a_file_of_its_own(home):
    text = json.dumps({"name": "orders", "config": {"topics": "a", "tasks.max": 2}})
    file = inline_file(home, text, where="the form")
    assert load_sink_config(file).tasks_max == 2
    assert inline_file(home, text, where="the form") == file
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"name": "o", "config": {"topics": "a", "snowflake.private.key": "hunter2"}}',
        '{"unknown": "hunter2"}',
    ],
)
def test_what_is_no_inline_connector_is_refused_and_not_written(home, text):
    with pytest.raises(ConfigError) as refused:
        inline_file(home, text, where="the form")
    assert "hunter2" not in str(refused.value)
    assert not (home / FOLDER).exists()


def test_a_file_that_extends_itself_is_refused(tmp_path):
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"extends": str(file), "config": {}}))
    with pytest.raises(ConfigError, match="extends itself"):
        read_connector_file(file)
