"""Writes docs/configuration-export.md from the parameters' definitions: python -m firn.connector.export.document."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from firn.connector.document import HEAD, parameter_row
from firn.connector.export.parameters import PARAMETERS

PATH = Path("docs/configuration-export.md")
_KEYS = "Options of the key's converter"
_INTRO = """\
# Configuration of an export

An export is configured by a connector file of Kafka Connect: JSON, `{{"name": ..., "config": {{...}}}}` or flat, or
Java's `.properties`. {count} parameters are known, and families of names (sources, checks, topic options, Kafka's
client).
`firn export validate FILE` lists all faults at once. What an export does: [export.md](export.md). What the file leaves
out, references to secrets, and what "effect" means: [configuration.md](configuration.md).

This page is generated from the definitions in `firn/connector/export/parameters.py`
(`python -m firn.connector.export.document`).

## How changes are found

| mode | given without `mode` | what is read |
|---|---|---|
| `stream` | `snowflake.stream.name` | a stream that somebody made |
| `tables` | `snowflake.table.name`, `table.include.list` | tables, each through a stream that the export makes |
| `incrementing`, `timestamp`, `timestamp+incrementing`, `cursor` | the columns of the mode | rows since the maximum |
| `query` | `query` with `snowflake.stream.name` | SQL over streams |
| `compare` | `query` with `message.key.columns` | SQL or a table, compared with its rows of before |

Several sources in one file: `firn.export.sources=a,b`, then `firn.export.sources.a.<parameter>`, in which a leading
`firn.export.` may be left out. A parameter of the group Source that stands alone is the default of all sources.
"""
_OPTIONS = "\nThe same options exist for keys, as `key.converter.<option>`.\n"
_CLIENT = """\
## Kafka's client

`kafka.<property>` and `producer.override.<property>`, which wins, set properties of all of the export's Kafka clients
under Java's names: brokers, login, TLS. What transactions decide (acks, batch.size, linger.ms, ...) has no effect.
"""


def document() -> str:
    """The text of docs/configuration-export.md."""
    parts = [_INTRO.format(count=len(PARAMETERS))]
    groups: dict[str, list[str]] = {}
    for title, members in groupby(PARAMETERS.values(), lambda parameter: parameter.group):
        groups.setdefault(title, []).extend(map(parameter_row, members))
    for title, rows in groups.items():
        if title != _KEYS:
            note = _OPTIONS if title.startswith("Options") else ""
            parts.append(f"## {title}\n{note}\n{HEAD}\n" + "\n".join(rows) + "\n")
    return "\n".join([*parts, _CLIENT])


if __name__ == "__main__":
    PATH.write_text(document(), encoding="utf-8")
