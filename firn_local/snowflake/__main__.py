"""Run the local Snowflake: `python -m firn_local.snowflake --port P --data-dir DIR`. Loopback only."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path


def main() -> None:
    """Parse the command line and serve until a signal."""
    parser = argparse.ArgumentParser(prog="python -m firn_local.snowflake", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="port on 127.0.0.1")
    parser.add_argument("--streaming-port", type=int, help="port of Snowpipe Streaming on 127.0.0.1; default: none")
    parser.add_argument("--commit-delay-seconds", type=float, default=0.1, help="how long streamed rows wait")
    parser.add_argument("--data-dir", type=Path, required=True, help="where everything is kept")
    parser.add_argument("--memory-limit", default="1GB", help="DuckDB's memory limit")
    parser.add_argument("--threads", type=int, default=2, help="DuckDB's threads")
    parser.add_argument("--bootstrap-sql", type=Path, help="SQL file run once as ACCOUNTADMIN, at the first start")
    parser.add_argument("--account", help="the only account name that may log in; default: any")
    parser.add_argument("--detached-session-seconds", type=float, default=10.0)
    parser.add_argument("--idle-transaction-seconds", type=float, default=14_400.0)
    parser.add_argument("--answer-within-seconds", type=float, default=40.0)
    options = parser.parse_args()
    # fakesnow makes a directory in the temporary one as it is imported: keep that inside the data directory too.
    tmp = options.data_dir.resolve() / "tmp"
    tmp.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(tmp)

    from firn_local.snowflake.server.serving import serve

    serve(options)


if __name__ == "__main__":
    main()
