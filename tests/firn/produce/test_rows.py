"""Files are read row by row, and a broken place is named as an editor counts it."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.errors import ConfigError
from firn.produce.rows import UnreadableRowError, open_rows


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_csv_rows_carry_their_line_also_after_quotes_that_span_lines_and_blank_lines(tmp_path):
    file = open_rows(written(tmp_path, "a.csv", '\ufeffid,note\n1,"two\nlines"\n\n2,\n'))
    assert file.columns == ("id", "note")
    assert list(file.rows()) == [(2, {"id": "1", "note": "two\nlines"}), (5, {"id": "2", "note": ""})]
    assert file.place(5) == "a.csv, line 5"


@pytest.mark.parametrize(("text", "line"), [("a,b\n1,2\n3\n", 3), ('a,b\n1,"2\n', 2), (b"a,b\n1,2\n\xff,2\n", 3)])
def test_a_broken_csv_row_is_named(tmp_path, text, line):
    file = open_rows(written(tmp_path, "a.csv", text))
    with pytest.raises(UnreadableRowError) as broken:
        list(file.rows())
    assert f"line {line}" in broken.value.where


def test_a_csv_header_with_a_name_twice_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="names a twice"):
        open_rows(written(tmp_path, "a.csv", "a,b,a\n1,2,3\n"))


def test_json_lines_count_blank_lines_too(tmp_path):
    file = open_rows(written(tmp_path, "a.jsonl", '{"a": 1}\n\n{"a": null}\n[1]\n'))
    rows = file.rows()
    assert [next(rows), next(rows)] == [(1, {"a": 1}), (3, {"a": None})]
    with pytest.raises(UnreadableRowError) as broken:
        next(rows)
    assert broken.value.where == "a.jsonl, line 4"


def test_parquet_rows_keep_their_types(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1, None], "b": ["x", "y"]}), path)
    file = open_rows(path)
    assert (file.columns, file.size) == (("a", "b"), 2)
    assert list(file.rows()) == [(1, {"a": 1, "b": "x"}), (2, {"a": None, "b": "y"})]


@pytest.mark.parametrize(("name", "text"), [("a.xlsx", "x"), ("a.parquet", "not parquet"), ("a.csv", "")])
def test_what_cannot_be_read_at_all_is_a_configuration_error(tmp_path, name, text):
    with pytest.raises(ConfigError):
        open_rows(written(tmp_path, name, text))


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        open_rows(tmp_path / "nope.jsonl")
