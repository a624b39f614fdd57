"""An export as a job that people pause, resume and stop, and where its row in FIRN_SINKS is."""

from __future__ import annotations

from pathlib import Path

from firn.connector.export.parse import load_export_config
from firn.connector.references import Resolver
from firn.exports import names
from firn.exports.context import ExportContext, resolve_export
from firn.operations.exports.observer import ExportObserver, pace_of_export
from firn.operations.state_request import ControlledJob
from firn.secrets import secret_reader
from firn.settings import Settings


def export_of_file(file: Path, settings: Settings) -> ExportContext:
    """The export of a connector file. Raises ConfigError for a faulty one, and the errors of `read_secret`."""
    return resolve_export(load_export_config(file, Resolver(secret_reader(settings))), settings)


def controlled_export(context: ExportContext, observer: ExportObserver) -> ControlledJob:
    """The export as `request_state` takes it."""
    config, control = context.config, names.control_name(context.config.name)
    return ControlledJob(config.name, control, pace_of_export(config), context.login, context.namespace, observer)
