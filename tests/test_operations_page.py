"""docs/operations.md, the runbook: every symptom that users of such systems meet, and nothing that does not exist."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperGroup

from firn.settings import PROJECT_ROOT
from flows.cli import app
from flows.prefect_ui.events import EVENTS

PAGE = PROJECT_ROOT / "docs/operations.md"
TEXT = PAGE.read_text()
PROSE = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
ROWS = [line for line in PROSE.splitlines() if line.startswith("| ")]

SYMPTOMS = {
    "login at Snowflake refused": "Authentication failed",
    "rights in Snowflake missing": "Insufficient privileges",
    "login at the registry refused": "Schema Registry authentication failed",
    "lag rises": "Lag grows all the time",
    "no such table": "Table not found",
    "malformed data": "Data arrives malformed",
    "error rate": "error rate is not 0",
    "wrong configuration": "Configuration error",
    "cannot subscribe": "cannot subscribe to the topic",
    "key pair wrong": "DESC USER",
    "Kafka not running, message not sent yet": "Nothing arrives: Kafka is down, or nothing was sent",
    "message expired": "Records expired before they were read",
    "message deleted": "Records were deleted from the topic",
    "stage: rights": "Stage: no rights",
    "stage: space": "Stage: out of space",
    "stage: dropped, cleaned by hand": "Stage was dropped, or cleaned by hand",
    "stage: files of others": "Stage: somebody writes files into it",
    "table: rights": "Table: no rights",
    "network, firewall": "firewall",
    "others change the table": "Somebody changes rows of the table",
    "much data": "Much data at once",
    "offsets that are missing, no rows": "a range without rows",
    "rows rejected (error 5030)": "stops in front of a record",
    "schema of a table changed by hand": "A table must be changed by hand",
    "own pipe": "A pipe of your own no longer fits",
    "off for longer than the retention": "the sink was off for longer than the topic keeps them",
    "duplicates": "Duplicates after a rebalance, a restart, a zombie",
    "topic made again": "made again: old positions",
    "failed, looks slow": "It looks merely slow",
    "quiet topic": "A quiet topic stands still",
    "group lag": "Consumer-group lag in Kafka's tools means nothing",
    "decimals and bytes": "Decimals or bytes look odd",
    "schema changed by two at once": "changed by somebody at the same moment",
    "tombstones": "cannot loop",
    "copies of a dead letter": "Ten copies of one record",
    "evolution without a restart": "no restart",
    "rows of nulls": "A row of nulls",
    "memory": "Out of memory, with many partitions",
    "child of a cancelled run": "A cancelled run whose Spark lives on",
    "two runs by schedule": "Two scheduled runs of one sink",
    "MERGE and repeated keys": "MERGE fails on repeated keys",
    "forms of a private key": "with headers, without headers, or with `\\n`",
    "fenced": "ended as fenced",
    "restarts without end": "started again and again",
    "no Prefect server": "The Prefect server is down",
    "no worker": "The worker is down",
}
"""What people report, in our words, and the words of the row that answers it."""


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_every_symptom_has_a_row_with_a_check_or_a_fix(symptom: str) -> None:
    rows = [row for row in ROWS if SYMPTOMS[symptom] in row]
    assert rows, f"no row says {SYMPTOMS[symptom]!r}"
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", rows[0])[1:-1]]
    assert len(cells) >= 3
    assert cells[1] or cells[2]


def _command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the words name, and what is left of them."""
    command: Any = typer.main.get_command(app)
    while words and isinstance(command, TyperGroup):
        found = command.commands.get(words[0])
        assert found is not None, f"no command {words[0]!r} in {command.name!r}"
        command, words = found, words[1:]
    return command, words


def _named_commands() -> set[str]:
    inline = re.findall(r"`(firn [^`]*)`", TEXT)
    typed = re.findall(r"^\s*(?:\$ )?(firn (?:sink|deploy|up|sql|status).*)$", TEXT, re.MULTILINE)
    return {each.strip() for each in (*inline, *typed)}


@pytest.mark.parametrize("line", sorted(_named_commands()))
def test_every_command_and_option_exists(line: str) -> None:
    command, rest = _command(line.split()[1:])
    options = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in rest if re.match(r"-{1,2}[a-z]", word)} <= options
    if rest and not isinstance(command, TyperGroup):  # a bare name is a mention
        required = [each for each in command.params if each.param_type_name == "argument" and each.required]
        given = [word for word in rest if not word.startswith("-")]
        assert len(given) >= len(required), f"{line} lacks {[each.name for each in required]}"


def test_every_event_is_there_and_exists() -> None:
    named = set(re.findall(r"`firn\.sink\.(\w+)`", TEXT))
    assert named <= set(EVENTS)
    assert set(EVENTS) - named <= {"started", "committed"}


def test_every_alert_is_there_and_exists() -> None:
    file = yaml.safe_load((PROJECT_ROOT / "infra/prefect/automations.yaml").read_text())
    made = {each["name"] for each in file["automations"]}
    named = set(re.findall(r"`(firn-(?:(?:sink|export)-[a-z-]+|no-worker|lost-runs))`", TEXT))
    assert named == made


def test_every_metric_exists() -> None:
    described = (PROJECT_ROOT / "docs/metrics.md").read_text()
    named = set(re.findall(r"`(firn_sink_\w+)`", TEXT))
    assert named
    assert {name for name in named if f"`{name}`" not in described} == set()


def test_every_deployment_exists() -> None:
    deployments = yaml.safe_load((PROJECT_ROOT / "prefect.yaml").read_text())["deployments"]
    assert {"sink", "sink-control", "maintenance"} <= {each["name"] for each in deployments}
    assert re.findall(r"prefect deployment run (\S+)`", TEXT) == ["sink/sink"]


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)]+)\)", PROSE))))
def test_every_link_leads_somewhere(link: str) -> None:
    path, _, anchor = link.partition("#")
    target = (PAGE.parent / path).resolve() if path else PAGE
    assert target.is_file()
    if anchor:
        assert anchor in _anchors(target.read_text())


def test_pictures_are_small_and_shown() -> None:
    images = sorted((PAGE.parent / "images").glob("*.png"))
    assert {f"images/{each.name}" for each in images} == set(re.findall(r"\((images/[^)]+)\)", TEXT))
    for image in images:
        data = image.read_bytes()
        assert int.from_bytes(data[16:20]) == 1200, image.name
        assert len(data) < 150_000, image.name
