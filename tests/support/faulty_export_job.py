"""The export's main program with faults armed around it: `python -m tests.support.faulty_export_job <its arguments>`.

The faults come from the environment (`tests.support.faults.environment`).
"""

from __future__ import annotations

import sys

from spark_jobs.export.job import main
from tests.support.export_hooks import armed_export
from tests.support.faults import ExportStep, from_environment

if __name__ == "__main__":
    with armed_export(*from_environment(ExportStep)):
        sys.exit(main())
