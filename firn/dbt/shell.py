"""dbt itself on a person's terminal: `python -m firn.dbt.shell <dbt's arguments>`, as `firn dbt` runs it.

dbt's own command line, with its help, colours and exit codes (0 done, 1 a node failed, 2 anything else); it adds a
line where a model has no contract. A plain SIGTERM is an interrupt here, on which dbt cancels its queries. Not for
runs that a flow follows (`child`).
"""

from __future__ import annotations

import signal
import sys
from typing import Any

from firn.dbt.contracts import missing_contract


def main(arguments: list[str]) -> None:
    """Run one command of dbt; raises SystemExit with its exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from dbt.cli.main import cli

    hints: list[str] = []

    def note(event: Any) -> None:
        if event.info.name == "NodeFinished":
            node = event.data.node_info
            hint = missing_contract(node.node_name, event.data.run_result.message)
            hints.extend([hint] if hint else [])

    try:
        # As dbtRunner passes callbacks, which prints no help and no usage errors.
        cli.main(arguments, prog_name="firn dbt", obj={"callbacks": [note]})
    finally:
        sys.stdout.flush()
        for hint in hints:
            sys.stderr.write(f"Next: {hint}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
