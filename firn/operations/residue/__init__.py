"""What a sink leaves behind, place by place: looked at without changing anything, each thing as a `Finding`.

Not for removing it, nor for the order of that (`firn.operations.clean`). Imports no Spark.
"""

from firn.operations.residue.consumer_groups import Groups, group_names, look_at_groups
from firn.operations.residue.finding import COLUMNS, Finding
from firn.operations.residue.remaining_objects import find_objects
from firn.operations.residue.sink_records import Rows, look_at_rows
from firn.operations.residue.supervision import Supervision, look_at_supervision
from spark_jobs.sink.methods.snowpipe.residue import Staged, look_at_stage

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
