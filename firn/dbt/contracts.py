"""What to add where a model has no contract: marts enforce one, and dbt names neither the file nor the form.

Source: https://docs.getdbt.com/reference/resource-configs/contract. Not for contracts that are there and broken: of
those dbt shows the difference itself.
"""

from __future__ import annotations

_MISSING = "enforced contract, and its 'columns' specification is missing"


def missing_contract(name: str, message: str) -> str | None:
    """A line that says what the model `name` lacks, if that is what dbt's message about it says."""
    if _MISSING not in message:
        return None
    return (
        f"{name} has no contract: in a .yml file of its folder, add `models: [{{name: {name}, columns: [{{name: ..., "
        "data_type: ...}, ...]}]` with all of its columns, or set `contract={'enforced': false}` in its config()."
    )
