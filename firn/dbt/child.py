"""dbt as a child of `firn.dbt.process`: `python -m firn.dbt.child <JSON list of commands>`. Not for use by hand.

One process a project: it is parsed once, and each command (a list of dbt's arguments) runs on that. What a node does is
told on standard error, a line for its start and one for its end; dbt's own words go to standard output.

dbt cancels its queries in Snowflake on an interrupt only; a plain SIGTERM would leave a statement, its transaction and
its lock behind. So SIGTERM is an interrupt here, and so is the end of standard input: the parent is gone.
Programmatic invocation: https://docs.getdbt.com/reference/programmatic-invocations
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

NODE = "firn-node "
"""What a line about a node begins with."""
_EVENTS = {"NodeStart": "start", "NodeFinished": "end"}


def main(commands: list[list[str]]) -> int:
    """Run dbt's commands in this process until one fails: 0 all went well, 1 a node failed, 2 dbt did."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    threading.Thread(target=_interrupt_at_end_of_input, daemon=True).start()
    from dbt.cli.main import dbtRunner

    manifest: Any = None
    code = 0
    for command in commands:
        done = dbtRunner(manifest, callbacks=[_tell]).invoke(command)
        if done.exception is not None:
            sys.stdout.write(f"{done.exception}\n")
            return 2
        manifest = done.result if command[0] == "parse" else manifest
        code = code or int(not done.success)
    return code


def _tell(event: Any) -> None:
    """Write a line about a node: one of several threads at a time, in one write."""
    step = _EVENTS.get(event.info.name)
    if step is None:
        return
    node = event.data.node_info
    if node.resource_type == "exposure":  # dbt does nothing for it
        return
    said = {"step": step, "id": node.unique_id, "kind": node.resource_type, "name": node.node_name}
    if step == "end":
        said |= {"status": node.node_status, "message": event.data.run_result.message}
    os.write(2, (NODE + json.dumps(said) + "\n").encode())


def _interrupt_at_end_of_input() -> None:
    # Unbuffered: a thread inside sys.stdin's lock would abort the interpreter's exit.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
