"""Writes docs/configuration.md from the definitions of the parameters: python -m firn.connector.document."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from firn.connector.conversion import HOIST
from firn.connector.formats import CLASSES, INPUT_FORMATS
from firn.connector.parameter import Parameter
from firn.connector.parameters import PARAMETERS
from firn.connector.parameters.converters import KEY_OPTIONS, VALUE_OPTIONS
from firn.kafka.property_table import PROPERTIES

PATH = Path("docs/configuration.md")
HEAD = "| parameter | type | default | effect | meaning |\n|---|---|---|---|---|"

_INTRO = """\
# Configuration of a sink

A sink is configured by a connector file of Kafka Connect, as the official Snowflake connector and Confluent Cloud's
managed one take it: JSON, `{{"name": ..., "config": {{...}}}}` or flat, or Java's `.properties`. {count} parameters are
known, and families of names (Kafka's client, transforms). `firn sink validate FILE` lists all faults at once, each with
its name, value, what is wrong, the allowed values and the nearest known name, and the values that take effect.

This page is generated from the definitions in `firn/connector/parameters` (`python -m firn.connector.document`).

What the file leaves out: addresses and logins come from the [settings](settings.md) and the secrets named there.
"Effect" tells what Firn does with a parameter:

| effect | meaning |
|---|---|
| honoured | Firn follows it. Where "only" one value is named, that is what Firn does, and others are refused. |
| no effect | It is checked and accepted, with a warning that says why it changes nothing on Spark. |
| refused | It cannot be followed and must not be ignored: a fault that says why. |

An unknown parameter is a fault. Its value is not shown, since it may be a misspelt secret.

## References

A value, or a part of one, may be a reference. It is resolved when the sink starts, and
again when a login is refused ([credentials.md](credentials.md)); what it stands for is never written down.

| reference | stands for |
|---|---|
| `${{secretsmanager:<secret>:<key>}}` | a key of a secret in AWS Secrets Manager (region and login: settings) |
| `${{env:<name>}}` | an environment variable |
| `${{file:<path>:<key>}}` | a key of a JSON file (`*.json`) or of a `.properties` file |

`firn sink validate` without `--live` does not ask Secrets Manager: such a reference counts as given, unchecked.
"""

_BUFFERS = """
### Buffers on Spark

With SNOWPIPE, Spark reads in batches, and each batch is one commit for all partitions. The buffers bound what one
partition holds:

- `buffer.count.records` and `buffer.size.bytes` bound each staged file of a partition exactly, whichever comes first;
  bytes are those of the texts of all columns, and one record that has more is a file of its own.
- `buffer.flush.time` is how long records wait for their batch at most: the next batch begins so many seconds after
  the one before began, or earlier when `buffer.count.records` records wait, or so many as fill `buffer.size.bytes` by
  their average size. A sink that runs once never waits.
- `firn.batch.records` and `firn.batch.bytes` bound one batch and commit over all partitions: records exactly, bytes by
  the average size of the records before. Where that is wrong, a partition's part of the batch ends early.

With SNOWPIPE_STREAMING nothing waits for a buffer to fill: rows are appended as they are read, long before
`buffer.flush.time`, and the client sends them within `snowflake.streaming.max.client.lag`. `buffer.count.records` and
`buffer.size.bytes` bound what one append takes.

Memory does not grow with the backlog: records travel in Arrow batches of bounded bytes, and files are written as they
come ([decision 0003](decisions/0003-batches-bounded-by-bytes.md)).

| | default | minimum |
|---|---|---|
| SNOWPIPE | 10000 records, 120 s, 5000000 bytes | 1 record, 10 s, 1 byte |
| SNOWPIPE_STREAMING | 10000 records, 10 s, 20000000 bytes | 1 record, 1 s, 1 byte |
"""

_BAD_RECORDS = """
### Records that cannot be converted

What makes a record bad, and the word for each reason:
[compatibility.md](compatibility.md#what-is-refused-that-was-dropped-or-kept-silently). No record is bad because the
registry does not answer.

- `errors.tolerance=none`: everything before the record is committed, then the sink stops and names topic, partition,
  offset and reason. Started again, it goes on at that record.
- `errors.tolerance=all` without `errors.deadletterqueue.topic.name`: bad records are left out for good. They are
  counted in the log and in the run's report, and shown one by one with `errors.log.enable`.
- `errors.tolerance=all` with a topic: each becomes exactly one dead letter, whatever is tried again: the key, value and
  headers of the record as they are, with headers about the error where `errors.deadletterqueue.context.headers.enable`
  asks for them. The topic must be none that the sink reads.
"""

_CONVERTERS = """
### Which converter

Class names may be given in full or without their package. `input.*.format` and a class that contradict each other are a
fault. Snowflake's own converters are refused with SNOWPIPE_STREAMING, as officially. JsonConverter expects
`{{"schema": ..., "payload": ...}}` unless `schemas.enable` is false (its default is true, as officially); the input
format JSON has no schema unless `schemas.enable` is true.

{formats}
"""

_TRANSFORMS = """
## Transforms

`transforms` names single message transforms, `transforms.<name>.type` their class. Known are {known}, with
`transforms.<name>.field`: they wrap the whole key or value into one field, in the order of the list. Other transforms,
and predicates, are refused by name: do that work in dbt, or before Kafka.

## Kafka's client

`kafka.<property>` and `consumer.override.<property>` set properties of the sink's Kafka client under Java's names;
`consumer.override.*` wins. The client is librdkafka: numbers are taken in the range that Kafka Connect takes, and moved
into librdkafka's. `auto.offset.reset` (earliest or latest) sets where a sink begins that has never run; later starts go
on from the ledger. A property that Kafka does not have is a fault. `producer.override.*` and `admin.override.*` are
checked and have no effect.

- A login is PLAIN, SCRAM or OAUTHBEARER with client credentials (in `sasl.jaas.config`, or in the properties
  `sasl.oauthbearer.client.credentials.client.id` and `.secret` and `sasl.oauthbearer.scope` of Kafka 4.1), or a client
  certificate. Kerberos, delegation tokens and Java classes of your own are refused.
- Key and trust stores are PEM or PKCS12. A JKS store is refused with the `keytool` line that converts it. The file
  tells its type, so `firn sink validate` finds it on a machine that has the file.
- `group.id` names the group under which the sink publishes its committed positions for lag tools, `connect-<name>`
  without it. Nothing is read as a member of it, and resetting its offsets changes nothing: positions are the ledger's.
- `isolation.level=read_committed` leaves out the records of aborted transactions, and waits in front of those of open
  ones. The default is Kafka's, `read_uncommitted`: every record lands.

All other properties that Kafka documents for consumers are honoured, except these:

| properties | effect | why |
|---|---|---|
{properties}
"""


def _properties() -> str:
    """Kafka's properties that are not honoured, one row for each reason."""
    rows: dict[tuple[str, str], list[str]] = {}
    for name, row in PROPERTIES.items():
        if row.kind != "honoured":
            rows.setdefault((row.kind, row.reason), []).append(f"`{name}`")
    return "\n".join(f"| {', '.join(names)} | {kind} | {why} |" for (kind, why), names in rows.items())


def document() -> str:
    """The text of docs/configuration.md."""
    parts = [_INTRO.format(count=len(PARAMETERS))]
    for title, members in groupby(PARAMETERS.values(), lambda parameter: parameter.group):
        if title == KEY_OPTIONS[0].group:
            continue
        parts.append(_group(title, tuple(members)))
        if title == "Method and buffers":
            parts.append(_BUFFERS)
        if title == "Errors":
            parts.append(_BAD_RECORDS)
        if title == "Converters":
            parts.append(_CONVERTERS.format(formats=_formats()))
    parts.append(_TRANSFORMS.format(known=" and ".join(f"`{name}`" for name in HOIST), properties=_properties()))
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _group(title: str, members: tuple[Parameter, ...]) -> str:
    if title == VALUE_OPTIONS[0].group:
        title = "Options of converters"
    rows = [parameter_row(member) for member in members]
    note = "\nThe same options exist for keys, as `key.converter.<option>`.\n" if title.startswith("Options") else ""
    return f"## {title}\n{note}\n{HEAD}\n" + "\n".join(rows)


def parameter_row(parameter: Parameter) -> str:
    """The line of a parameter in a table under `HEAD`."""
    default = f"`{parameter.default_text}`" if parameter.default_text else _escaped(parameter.elsewhere)
    effect = str(parameter.effect) + (", required" if parameter.required else "")
    meaning = parameter.doc
    if parameter.reader.why:
        meaning += f" Only `{parameter.reader.allowed[0]}`: {parameter.reader.why}."
    if parameter.reason:
        meaning += f" {parameter.reason[0].upper()}{parameter.reason[1:]}"
    cells = (f"`{parameter.name}`", _type(parameter), default, effect, _escaped(meaning))
    return "| " + " | ".join(cells) + " |"


def _type(parameter: Parameter) -> str:
    reader = parameter.reader
    kind = "secret" if parameter.secret else reader.type
    if reader.type in ("boolean", "class") and len(reader.allowed) != 1:
        return kind
    return f"{kind}: {', '.join(reader.allowed)}" if reader.allowed else kind


def _formats() -> str:
    inputs = {format_: name for name, format_ in INPUT_FORMATS.items()}
    rows = [f"| `{name}` | {inputs.get(format_, '')} |" for name, format_ in CLASSES.items()]
    return "| class | input format |\n|---|---|\n" + "\n".join(rows)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PATH.write_text(document(), encoding="utf-8")
