"""Automations as code: apply infra/prefect/automations.yaml to a Prefect server, any number of times.

The events they react to: `flows.prefect_ui.events`. Not for triggers of deployments, which stand in prefect.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import UUID

import yaml
from prefect.client.orchestration import SyncPrefectClient
from prefect.events.schemas.automations import AutomationCore

from firn.settings import PROJECT_ROOT

FILE = PROJECT_ROOT / "infra/prefect/automations.yaml"
_PAGE = 200
What = Literal["made", "changed", "unchanged"]


class Applied(NamedTuple):
    """What was done with an automation.

    enabled: a person's choice, which stays. notifies: the block it sends to; silent: it needs one that is missing.
    """

    name: str
    what: What
    enabled: bool
    notifies: str
    silent: bool


def apply_automations(client: SyncPrefectClient, file: Path = FILE) -> Iterator[Applied]:
    """Create or change the automations of a file, by their names; others stay as they are.

    One that was switched off in the UI stays off. Raises pydantic's ValidationError for an invalid definition.
    """
    definitions = read_definitions(file)
    blocks = {name: block_id(client, name) for each in definitions for name in _blocks(each)}
    for definition in definitions:
        desired, named = automation(definition, blocks), _blocks(definition)
        what, enabled = _apply(client, desired)
        there = ", ".join(name for name in named if blocks[name])
        yield Applied(desired.name, what, enabled, there, silent=bool(named) and not there)


def read_definitions(file: Path = FILE) -> list[dict[str, Any]]:
    """The definitions in a file."""
    definitions: list[dict[str, Any]] = yaml.safe_load(file.read_text())["automations"]
    return definitions


def automation(definition: dict[str, Any], blocks: Mapping[str, UUID | None]) -> AutomationCore:
    """A definition as Prefect's own value. blocks: ids of the blocks that it names; None: there is none."""
    actions = [_action(action, blocks) for action in definition["actions"]]
    return AutomationCore.model_validate({**definition, "actions": actions})


def block_id(client: SyncPrefectClient, name: str) -> UUID | None:
    """The id of the saved block of this name, whatever its type; None where there is none."""
    offset = 0
    while page := client.read_block_documents(offset=offset, limit=_PAGE, include_secrets=False):
        if found := next((block.id for block in page if block.name == name), None):
            return found
        offset += len(page)
    return None


def _blocks(definition: dict[str, Any]) -> list[str]:
    return [action["block"] for action in definition["actions"] if "block" in action]


def _action(action: dict[str, Any], blocks: Mapping[str, UUID | None]) -> dict[str, Any]:
    """An action whose block is its id; one without its block does nothing."""
    if "block" not in action:
        return action
    id = blocks[action["block"]]
    if id is None:
        return {"type": "do-nothing"}
    return {**{name: value for name, value in action.items() if name != "block"}, "block_document_id": str(id)}


def _apply(client: SyncPrefectClient, desired: AutomationCore) -> tuple[What, bool]:
    """What was done, and whether it is on. A change resets what a trigger has counted: never without need."""
    existing = next(iter(client.read_automations_by_name(desired.name)), None)
    if existing is None:
        client.create_automation(desired)
        return "made", desired.enabled
    if _content(existing) == _content(desired):
        return "unchanged", existing.enabled
    client.update_automation(existing.id, desired.model_copy(update={"enabled": existing.enabled}))
    return "changed", existing.enabled


def _content(automation: AutomationCore) -> dict[str, Any]:
    """What a file defines of an automation; sets stay sets, because their order as text varies."""
    return automation.model_dump(include={"name", "description", "trigger", "actions"})
