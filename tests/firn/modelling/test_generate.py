"""Generated files: what they say, what a second run shows, and that a person's edits survive it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from firn.errors import ConfigError
from firn.modelling.columns import MAX_COLUMNS
from firn.modelling.description import Described
from firn.modelling.files import GeneratedFile, State, compared, write
from firn.modelling.generate import base_name, described, folder, generated
from firn.modelling.overrides import Overrides, read_overrides
from firn.registry.schemas import RegisteredSchema
from firn.settings import PROJECT_ROOT
from tests.firn.modelling.subjects import DEEP, FLAT, UNIONS

PLACE = ("STREAMING", "PUBLIC")
COMMAND = "firn transform generate --subject flat-readings-value"
FLAT_FOLDER = "models/firn/flat_readings"


def overrides(tmp_path: Path, text: str) -> Overrides:
    file = tmp_path / "overrides.yml"
    file.write_text(text)
    return read_overrides(file)


def flat(said: Overrides | None = None) -> dict[str, str]:
    return generated(FLAT.name, FLAT.described, PLACE, said or Overrides())


def staging_of(files: dict[str, str], name: str) -> str:
    return next(text for path, text in files.items() if path.endswith(f"/stg_{name}.sql"))


def documents(files: dict[str, str], ending: str) -> Any:
    return yaml.safe_load(next(text for path, text in files.items() if path.endswith(ending)))


def by_name(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in entries}


def rerun(project: Path, files: dict[str, str]) -> list[GeneratedFile]:
    found = compared(project, files, COMMAND, (FLAT_FOLDER,))
    write(found)
    return found


def test_the_projects_own_models_are_what_the_generator_gives() -> None:
    """The order models are its output: a change of the generator or of the schema shows here."""
    schema = RegisteredSchema("AVRO", (PROJECT_ROOT / "firn/produce/schema/order_event.avsc").read_text())
    subject, project = "order-events-value", PROJECT_ROOT / "dbt"
    said = read_overrides(project / "firn/order_events.yml")
    files = generated(subject, described(subject, [(1, schema)]), PLACE, said)
    command = f"firn transform generate --subject {subject}"
    states = {each.path.name: each.state for each in compared(project, files, command, (folder(subject),))}
    assert set(states.values()) == {State.UNCHANGED}, states


def test_a_path_keeps_its_case_and_words_of_sql_are_in_brackets() -> None:
    text = staging_of(flat(), "flat_readings")
    assert "records.record_content:sensorId::varchar as sensor_id" in text
    assert "records.record_content['order']::number(38, 0) as value_order" in text
    assert "from {{ source('streaming', 'flat_readings_" in text


def test_child_tables_are_flattened_within_each_other() -> None:
    files = generated(DEEP.name, DEEP.described, PLACE, Overrides())
    assert base_name(DEEP.name) == "shop_deep_baskets"
    text = staging_of(files, "shop_deep_baskets__lines__discounts")
    assert "lateral flatten(input => records.record_content:lines) as lines" in text
    assert "lateral flatten(input => lines.value:discounts) as discounts" in text
    assert "discounts.value:code::varchar as code" in text
    mart = next(text for path, text in files.items() if path.endswith("fct_shop_deep_baskets__lines__discounts.sql"))
    assert "unique_key=['topic', 'partition', 'offset', 'lines_index', 'discounts_index']" in mart


def test_a_typed_table_gives_its_columns(tmp_path: Path) -> None:
    said = overrides(tmp_path, "table: Readings\ntyped_columns: true\nfields: {taken_at: {type: timestamp_millis}}")
    text = staging_of(flat(said), "flat_readings")
    assert "records.sensorid::varchar as sensor_id" in text
    assert 'records."ORDER"::number(38, 0) as value_order' in text
    assert "records.raw::binary as raw" in text  # the sink's column is a BINARY already
    assert "to_timestamp_ntz(records.taken_at::number(38, 0), 3) as taken_at" in text  # and this one a NUMBER
    assert "record_content" not in text
    assert "to_date(" not in staging_of(
        generated(UNIONS.name, UNIONS.described, PLACE, Overrides(typed_columns=True)), "unions_and_times"
    )


def test_what_the_schema_promises_is_tested_and_contracted() -> None:
    files = generated(DEEP.name, DEEP.described, PLACE, Overrides())
    staging = by_name(documents(files, "__staging.yml")["models"])["stg_shop_deep_baskets"]
    columns = by_name(staging["columns"])
    assert [next(iter(test)) for test in columns["basket"]["data_tests"]] == ["not_null"]
    (enum,) = columns["state"]["data_tests"]
    assert enum["accepted_values"]["arguments"] == {"values": ["OPEN", "PAID"]}
    assert "not is_tombstone" in enum["accepted_values"]["config"]["where"]
    assert "data_tests" not in columns["customer_address_city"]
    assert columns["basket"]["description"] == "Number of the basket."
    mart = by_name(documents(files, "__marts.yml")["models"])["fct_shop_deep_baskets__lines"]
    assert mart["config"]["contract"] == {"enforced": True}
    contract = by_name(mart["columns"])
    assert contract["sku"]["constraints"] == [{"type": "not_null"}]
    assert "constraints" not in contract["amount"]
    assert "What is in it" in mart["description"]


def test_every_column_of_every_model_has_a_text_and_none_is_a_template() -> None:
    for subject in (FLAT, DEEP, UNIONS):
        files = generated(subject.name, subject.described, PLACE, Overrides())
        for ending in ("__staging.yml", "__marts.yml"):
            for model in documents(files, ending)["models"]:
                assert all(column["description"] and column["data_type"] for column in model["columns"])
                assert "{{" not in json.dumps([column["description"] for column in model["columns"]])


def test_overrides_change_type_name_text_and_tests(tmp_path: Path) -> None:
    said = overrides(
        tmp_path,
        """
        source: kafka
        freshness: null
        fields:
          taken_at: {type: timestamp_millis, name: read_at, description: When it was read.}
          celsius: {type: "number(6, 2)", nullable: true}
          sensorId: {values: [s-1, s-2]}
          raw: {skip: true}
        """,
    )
    files = flat(said)
    text = staging_of(files, "flat_readings")
    assert "to_timestamp_ntz(records.record_content:taken_at::number(38, 0), 3) as read_at" in text
    assert "records.record_content:celsius::number(6, 2) as celsius" in text
    assert "raw" not in text
    assert "source('kafka'" in text
    columns = by_name(by_name(documents(files, "__staging.yml")["models"])["stg_flat_readings"]["columns"])
    assert columns["read_at"]["description"] == "When it was read."
    assert "data_tests" not in columns["celsius"]
    assert columns["sensor_id"]["data_tests"][1]["accepted_values"]["arguments"]["values"] == ["s-1", "s-2"]
    assert "freshness" not in json.dumps(documents(files, "__source.yml"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fields: {sensorID: {skip: true}}", "nearest: sensorId"),
        ("fields: {celsius: {type: numbr}}", "known are number"),
        ("fields: {celsius: {type: 'number(40, 2)'}}", "1 to 38 digits"),
        ("fields: {celsius: {nul: true}}", "nul"),
        ("- a list", "no mapping"),
        ("fields: [", "cannot be read"),
    ],
)
def test_overrides_that_fit_nothing_are_errors(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        flat(overrides(tmp_path, text))
    assert "overrides.yml" in raised.value.where


def test_a_schema_of_too_many_fields_says_how_to_cut_it() -> None:
    fields = [{"name": f"f{number}", "type": "int"} for number in range(MAX_COLUMNS + 1)]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    with pytest.raises(ConfigError, match="more than 1000 fields") as raised:
        generated("s", described("s", [(1, RegisteredSchema("AVRO", text))]), PLACE, Overrides())
    assert "type: variant" in raised.value.next_step


def test_a_second_run_changes_nothing_and_shows_nothing(tmp_path: Path) -> None:
    assert {each.state for each in rerun(tmp_path, flat())} == {State.NEW}
    assert {each.state for each in rerun(tmp_path, flat())} == {State.UNCHANGED}


def test_a_changed_schema_shows_its_difference_and_is_written(tmp_path: Path) -> None:
    rerun(tmp_path, flat())
    evolved = _evolved()
    found = {each.path.name: each for each in rerun(tmp_path, evolved)}
    assert found["stg_flat_readings.sql"].state is State.CHANGED
    assert "+    records.record_content:added::varchar as added" in found["stg_flat_readings.sql"].difference
    assert found["_flat_readings__source.yml"].state is State.UNCHANGED
    assert {each.state for each in rerun(tmp_path, evolved)} == {State.UNCHANGED}


def test_an_edited_file_is_told_apart_and_kept(tmp_path: Path) -> None:
    rerun(tmp_path, flat())
    file = tmp_path / FLAT_FOLDER / "fct_flat_readings.sql"
    file.write_text(file.read_text().replace("events.celsius", "round(events.celsius) as celsius"))
    edited = file.read_text()

    found = {each.path.name: each for each in rerun(tmp_path, flat())}

    assert found["fct_flat_readings.sql"].state is State.EDITED
    assert "-    round(events.celsius) as celsius," in found["fct_flat_readings.sql"].difference
    assert file.read_text() == edited


def test_a_file_without_its_header_is_its_authors(tmp_path: Path) -> None:
    rerun(tmp_path, flat())
    file = tmp_path / FLAT_FOLDER / "fct_flat_readings.sql"
    file.write_text("select 1 as mine\n")
    found = {each.path.name: each for each in rerun(tmp_path, _evolved())}
    assert found["fct_flat_readings.sql"].state is State.YOURS
    assert file.read_text() == "select 1 as mine\n"


def test_models_of_an_array_that_is_kept_as_it_is_are_removed(tmp_path: Path) -> None:
    def files(said: Overrides) -> dict[str, str]:
        return generated("flat-readings-value", DEEP.described, PLACE, said)

    rerun(tmp_path, files(Overrides()))
    mine = tmp_path / FLAT_FOLDER / "notes.sql"
    mine.write_text("select 1 as mine\n")
    found = rerun(tmp_path, files(overrides(tmp_path, "fields: {lines: {type: variant}}")))
    gone = {each.path.name for each in found if each.state is State.OBSOLETE}
    assert gone == {
        f"{kind}_flat_readings__{table}.sql" for kind in ("stg", "fct") for table in ("lines", "lines__discounts")
    }
    assert not any((tmp_path / FLAT_FOLDER / name).exists() for name in gone)
    assert mine.exists()


def _evolved() -> dict[str, str]:
    schema = json.loads(FLAT.schema.text)
    schema["fields"].append({"name": "added", "type": ["null", "string"], "default": None})
    versions = [(1, FLAT.schema), (2, RegisteredSchema("AVRO", json.dumps(schema)))]
    found: Described = described(FLAT.name, versions)
    return generated(FLAT.name, found, PLACE, Overrides())
