"""Whatever stands in a connector file: an answer or a ConfigError, and no secret in either."""

from __future__ import annotations

import json
from dataclasses import asdict

from hypothesis import given, settings
from hypothesis import strategies as st

from firn.connector.outcome import CheckedConfig, Effective, Fault, Warned
from firn.connector.parameters import PARAMETERS
from firn.connector.parse import check_sink_config
from firn.errors import ConfigError
from tests.support.connectors import MINIMAL

SECRET = "s3cr3t-hunter2"
FAMILIES = ("kafka.sasl.jaas.config", "kafka.ssl.key.password", "consumer.override.ssl.keystore.key", "unknown.name")
ANY_CHARACTER = st.characters(codec=None, exclude_categories=())  # also halves of surrogate pairs
NAMES = st.one_of(
    st.sampled_from(sorted(PARAMETERS)),
    st.sampled_from(["transforms.a.type", "transforms.a.field", "predicates.a.type", "kafka.fetch.min.bytes"]),
    st.text(ANY_CHARACTER, max_size=20),
)
VALUES = st.one_of(
    st.text(ANY_CHARACTER, max_size=40),
    st.sampled_from(
        ["true", "false", "1", "-1", "0", "", "a", "a:b", "a:bb,c:dd", "http://x", "https://u:p@x", "AVRO"]
    ),
    st.sampled_from([choice for parameter in PARAMETERS.values() for choice in parameter.reader.allowed]),
    st.sampled_from(["${env:HOME}", "${env:}", "${file:a:b}", "${secretsmanager:a:b}", "${}", "${x:${env:HOME}}"]),
)
SECRETS = sorted(name for name, parameter in PARAMETERS.items() if parameter.secret)


def refusal(checked: CheckedConfig) -> str:
    try:
        return repr(checked.require())
    except ConfigError as error:
        return str(error) + repr(error)


@settings(max_examples=200, deadline=None)
@given(raw=st.dictionaries(NAMES, VALUES, max_size=8), minimal=st.booleans())
def test_any_configuration_has_an_answer(raw: dict[str, str], minimal: bool) -> None:
    checked = check_sink_config(raw | (MINIMAL if minimal else {}), where="x")
    assert (checked.config is None) == bool(checked.faults or checked.unchecked)
    said = refusal(checked)
    assert all(fault.name in said for fault in checked.faults)
    lines: list[Fault | Warned | Effective] = [*checked.faults, *checked.warnings, *checked.effective]
    assert all(json.dumps(asdict(line), ensure_ascii=False).encode() for line in lines)
    assert all(line.name.isprintable() for line in lines)


@settings(max_examples=100, deadline=None)
@given(
    names=st.lists(st.sampled_from([*SECRETS, *FAMILIES]), min_size=1, max_size=4),
    shape=st.sampled_from(["{}", "u:{}", "{}:{}", '"{}', "x {}\n", "{} ${{env:HOME}}"]),
    rest=st.dictionaries(st.sampled_from(sorted(PARAMETERS)), VALUES, max_size=4),
)
def test_no_secret_is_ever_printed(names: list[str], shape: str, rest: dict[str, str]) -> None:
    raw = MINIMAL | rest | dict.fromkeys(names, shape.replace("{}", SECRET).replace("{{", "{").replace("}}", "}"))
    checked = check_sink_config(raw, where="x")
    assert SECRET not in repr(checked)
    assert SECRET not in "".join(map(str, (*checked.faults, *checked.warnings)))
    assert SECRET not in refusal(checked)
