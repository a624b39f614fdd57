"""The sink's main program with faults armed around it: `python -m tests.support.faulty_job <arguments of the job>`.

The faults come from the environment (`tests.support.faults.environment`).
"""

from __future__ import annotations

import sys

from spark_jobs.sink.job import main
from tests.support.faults import from_environment
from tests.support.faults_hooks import armed

if __name__ == "__main__":
    with armed(*from_environment()):
        sys.exit(main())
