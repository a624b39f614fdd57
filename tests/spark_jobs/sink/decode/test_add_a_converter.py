"""The example of CONTRIBUTING.md, "Add a converter": one line and one folder, applied to a copy, convert a batch."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from firn.connector.formats import Format
from firn.settings import PROJECT_ROOT
from spark_jobs.sink.decode.converters import registered

SECTION = (PROJECT_ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Add a converter\n")[2]
LINE, MODULE = re.findall(r"```python\n(.*?)```", SECTION.partition("\n## ")[0], re.DOTALL)
PROGRAM = """
import json, msgspec, pyarrow as pa
from firn.connector.parse import parse_sink_config
from firn.kafka.message_columns import RECORDS
from firn.kafka.partitions import TopicPartition
from spark_jobs.sink.columns.staged_columns import column_builder_for
from spark_jobs.sink.decode.converters import converter_for
from spark_jobs.sink.task.convert import convert
from spark_jobs.sink.values.table_loaders import VariantLoader

config = parse_sink_config({
    "name": "orders", "connector.class": "com.snowflake.kafka.connector.SnowflakeSinkConnector", "topics": "orders",
    "value.converter": "org.example.MessagePackConverter", "key.converter": "MessagePackConverter",
    "errors.tolerance": "all",
}, where="orders.json")
values = [msgspec.msgpack.encode({"id": 7, "tags": ["a", None], "total": 1.5}), None, b"\\xc1"]
columns = {
    "offset": [1, 2, 3], "timestamp": [0] * 3, "timestamp_type": [0] * 3, "headers": [None] * 3, "fault": [None] * 3,
    "key": [msgspec.msgpack.encode("k")] * 3, "value": values,
}
batch = pa.RecordBatch.from_pydict(columns, schema=RECORDS)
converters = [converter_for(each, lambda _: None) for each in (config.value, config.key)]
builder = column_builder_for(VariantLoader(), lambda _: {}, strict=False)
found = convert(config, TopicPartition("orders", 0), batch, tuple(converters), builder)
keys = [json.loads(text)["key"] for text in found.columns[0].to_pylist()]
print(json.dumps([keys, found.columns[1].to_pylist(), [(bad.row, bad.reason) for bad in found.bad]]))
"""


def applied(folder: Path) -> None:
    """A copy of the source in `folder`, with the line and the folder of the example."""
    for package in ("firn", "spark_jobs"):
        shutil.copytree(PROJECT_ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    registry = folder / "firn" / "connector" / "formats.py"
    before, member, after = registry.read_text(encoding="utf-8").partition("    AVRO = ")
    registry.write_text(before + LINE + member + after, encoding="utf-8")
    new = folder / "spark_jobs" / "sink" / "decode" / "messagepack"
    new.mkdir()
    (new / "__init__.py").write_text("")
    (new / "converter.py").write_text(MODULE, encoding="utf-8")


def test_one_line_and_one_folder_add_a_converter(tmp_path: Path) -> None:
    applied(tmp_path)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    keys, contents, bad = json.loads(done.stdout)
    assert keys == ["k", "k"]
    assert [json.loads(content) for content in contents] == [{"id": 7, "tags": ["a", None], "total": 1.5}, {}]
    assert bad == [[2, "malformed_messagepack"]]


def test_every_format_has_a_folder_with_its_converter() -> None:
    assert all(callable(registered(format)) for format in Format)


def folders() -> dict[str, Path]:
    decode = PROJECT_ROOT / "spark_jobs" / "sink" / "decode"
    return {each.registered.family: decode / each.registered.family for each in Format}


def test_families_have_the_same_modules() -> None:
    of_registry = {each.registered.family for each in Format if each.in_registry}
    for family, folder in folders().items():
        expected = {"converter", "values"} | ({"types"} if family in of_registry else set())
        assert expected <= {file.stem for file in folder.glob("*.py")}


def test_a_family_imports_what_all_share_and_no_other_family() -> None:
    for family, folder in folders().items():
        source = "".join(file.read_text(encoding="utf-8") for file in folder.glob("*.py"))
        imported = set(re.findall(r"spark_jobs\.sink\.decode\.(\w+)", source))
        assert imported <= {family, "base", "framing", "connect"}
