"""What a sink leaves behind, place by place: looked at without changing anything, each thing as a `Finding`.

Not for removing it, nor for the order of that (`spark_jobs.sink.clean`). Imports no Spark.
"""

from spark_jobs.sink.residue.finding import COLUMNS, Finding
from spark_jobs.sink.residue.groups import Groups, group_names, look_at_groups
from spark_jobs.sink.residue.objects import find_objects
from spark_jobs.sink.residue.rows import Rows, look_at_rows
from spark_jobs.sink.residue.staged import Staged, look_at_stage
from spark_jobs.sink.residue.supervision import Supervision, look_at_supervision

__all__ = [
    "COLUMNS",
    "Finding",
    "Groups",
    "Rows",
    "Staged",
    "Supervision",
    "find_objects",
    "group_names",
    "look_at_groups",
    "look_at_rows",
    "look_at_stage",
    "look_at_supervision",
]
