"""dbt as a child of `firn.dbt.transform`: `python -m firn.dbt.interruptible <dbt's arguments>`. Not for use by hand.

dbt cancels its queries in Snowflake on an interrupt only; a plain SIGTERM would leave a statement, its transaction and
its lock behind. So SIGTERM is an interrupt here, and so is the end of standard input: the parent is gone.
"""

from __future__ import annotations

import os
import signal
import threading


def main() -> None:
    """Run dbt's own command line in this process."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    threading.Thread(target=_interrupt_at_end_of_input, daemon=True).start()
    from dbt.cli.main import cli

    cli()


def _interrupt_at_end_of_input() -> None:
    # Unbuffered: a thread inside sys.stdin's lock would abort the interpreter's exit.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
