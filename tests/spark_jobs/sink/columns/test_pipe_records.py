"""What `$1` holds for the SELECT of a user's pipe, held against Python's own JSON."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.sink.columns.staged_columns import pipe_records


def strings(*texts: str | None) -> pa.StringArray:
    return pa.array(texts, pa.string())


def test_fields_stand_beside_the_metadata() -> None:
    texts, refused = pipe_records(strings('{"a":1,"b":{"c":2}}', "{}"), strings('{"offset":7}', "{}"), fields=True)
    assert texts.to_pylist() == ['{"a":1,"b":{"c":2},"RECORD_METADATA":{"offset":7}}', '{"RECORD_METADATA":{}}']
    assert refused == ()


def test_without_fields_the_content_is_one_of_them() -> None:
    texts, refused = pipe_records(
        strings("[1.50]", '{"RECORD_METADATA":1}', "null"), strings("{}", "{}", "{}"), fields=False
    )
    assert texts.to_pylist() == [
        f'{{"RECORD_CONTENT":{content},"RECORD_METADATA":{{}}}}'
        for content in ("[1.50]", '{"RECORD_METADATA":1}', "null")
    ]
    assert refused == ()


def test_without_metadata_there_is_no_such_field() -> None:
    metadata = strings(None, "{}", None)
    assert pipe_records(strings('{"a":1}', "{}", "{}"), metadata, fields=True)[0].to_pylist() == [
        '{"a":1}',
        '{"RECORD_METADATA":{}}',
        "{}",
    ]
    assert pipe_records(strings("1", "2", "3"), metadata, fields=False)[0].to_pylist() == [
        '{"RECORD_CONTENT":1}',
        '{"RECORD_CONTENT":2,"RECORD_METADATA":{}}',
        '{"RECORD_CONTENT":3}',
    ]


def test_records_that_have_no_fields_are_refused_by_row() -> None:
    content = strings("[1]", '{"a":1}', '"{"', "7", "null", "true")
    texts, refused = pipe_records(content, strings(*["{}"] * 6), fields=True)
    assert refused == (0, 2, 3, 4, 5)
    assert texts.is_null().to_pylist() == [True, False, True, True, True, True]


def test_a_field_of_the_metadata_s_name_is_refused_however_it_is_written() -> None:
    names = ['"RECORD_METADATA"', '"\\u0052ECORD_METADATA"', '"record_metadata"', '"a"', '"\\u0052"']
    values = ["1", "1", "1", '{"RECORD_METADATA":1}', '"RECORD_METADATA"']
    content = strings(*(f"{{{name}:{value}}}" for name, value in zip(names, values, strict=True)))
    assert pipe_records(content, strings(*["{}"] * 5), fields=True)[1] == (0, 1)


def test_slices_and_no_rows() -> None:
    content, metadata = strings("[0]", '{"a":1}', "{}"), strings("{}", '{"p":0}', None)
    texts, refused = pipe_records(content.slice(1, 1), metadata.slice(1, 1), fields=True)
    assert (texts.to_pylist(), refused) == (['{"a":1,"RECORD_METADATA":{"p":0}}'], ())
    for fields in (True, False):
        assert len(pipe_records(content.slice(0, 0), metadata.slice(0, 0), fields=fields)[0]) == 0


NAMES = st.one_of(st.sampled_from(["RECORD_METADATA", "RECORD_CONTENT", "", " ", "ö\\", '"']), st.text(max_size=4))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=5,
)
RECORDS = st.one_of(st.dictionaries(NAMES, VALUES, max_size=3), VALUES)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(RECORDS, st.none() | st.dictionaries(NAMES, VALUES, max_size=2)), max_size=5),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 1]),
)
def test_they_are_the_objects_that_json_would_make(
    rows: list[tuple[Any, dict[str, Any] | None]], fields: bool, escaped: bool, indent: int | None
) -> None:
    def dumped(value: Any) -> str:
        return json.dumps(value, ensure_ascii=escaped, indent=indent).encode("utf-8", "replace").decode()

    content = strings(*(dumped(record) for record, _ in rows))
    metadata = strings(*(None if meta is None else dumped(meta) for _, meta in rows))
    texts, refused = pipe_records(content, metadata, fields=fields)
    for row, (text, taken, meta) in enumerate(
        zip(texts.to_pylist(), content.to_pylist(), metadata.to_pylist(), strict=True)
    ):
        record = json.loads(taken)
        beside = {} if meta is None else {"RECORD_METADATA": json.loads(meta)}
        assert (row in refused) == (fields and (not isinstance(record, dict) or "RECORD_METADATA" in record))
        if row in refused:
            assert text is None
        else:
            assert json.loads(text) == {**(record if fields else {"RECORD_CONTENT": record}), **beside}
