"""The chaos soak: a real sink under faults by a seeded schedule, then a verdict in SQL.

    python -m tests.soak --minutes 15 --seed 7 [--json figures.json]

Figures on stdout, progress on stderr. Exit code 0 only if every fault fired and nothing was doubled or lost; 1 if not.
Ctrl-C, SIGTERM and a kill stop everything that was started.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

from firn.connector.config import Method
from tests.soak.figures import as_text, figures
from tests.soak.run import Plan, quiet_seconds, run_soak
from tests.soak.schedule import KINDS, schedule
from tests.soak.stack import SoakStack


def main(arguments: list[str] | None = None) -> int:
    """Run one soak; returns the exit code."""
    options = _options(arguments)
    for name in [name for name in os.environ if name.startswith("FIRN_")]:
        del os.environ[name]  # a stack of its own, and none of the developer's settings
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    seconds = options.minutes * 60
    faults = schedule(options.seed, seconds - quiet_seconds(seconds), options.faults, options.method)
    plan = Plan(options.seed, seconds, faults, options.rate, options.malformed, options.method)
    say("\n".join([f"{plan.method}, seed {options.seed}: {len(faults)} faults", *map(str, faults)]))
    stack = SoakStack(say)
    try:
        values = figures(plan, run_soak(plan, stack, say))
        stack.keep = not values["clean"]
    except Exception:
        stack.keep = True
        raise
    finally:
        stack.close()
        if stack.keep:
            say(f"Logs and data are left in {stack.root}")
    if options.json:
        options.json.write_text(json.dumps(values, indent=2) + "\n")
    sys.stdout.write(as_text(values) + "\n")
    return 0 if values["clean"] else 1


def say(text: str) -> None:
    """One line of progress."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="The chaos soak of the sink.")
    parser.add_argument("--minutes", type=float, default=15.0, help="how long the producer runs")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same schedule")
    parser.add_argument("--method", type=Method, choices=list(Method), default=Method.SNOWPIPE)
    parser.add_argument("--rate", type=float, default=300.0, help="records per second")
    parser.add_argument("--malformed", type=float, default=0.02, help="share of malformed records")
    parser.add_argument("--faults", type=lambda text: text.split(","), help=f"some of: {', '.join(KINDS)}")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
