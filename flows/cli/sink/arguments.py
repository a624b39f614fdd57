"""Arguments that the commands about one sink share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigArgument = Annotated[Path, typer.Argument(help="Connector file, JSON or .properties.")]
