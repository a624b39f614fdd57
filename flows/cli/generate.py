"""`firn transform generate`: the models of a subject, written into a dbt project. How: firn/modelling/."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firn.errors import ConfigError, TerminalError
from flows.cli.console import JsonOption, print_rows, say

if TYPE_CHECKING:
    from firn.modelling.files import GeneratedFile

COLUMNS = ("file", "state")


def generate(
    subject: Annotated[str, typer.Option(help="Subject of the schema registry, for example order-events-value.")],
    project_dir: Annotated[
        Path | None, typer.Option(help="A dbt project, also one that is not Firn's (default: Firn's own).")
    ] = None,
    overrides: Annotated[
        Path | None,
        typer.Option(help="What the schema does not say (default: firn/<name>.yml in the project)."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a file would change.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write staging views, typed marts, their YAML and tests, from a registered schema.

    A second run shows the difference. It never writes over a file that was edited by hand.
    """
    from firn.modelling.files import State, compared, write
    from firn.modelling.generate import folder

    project = _project(project_dir)
    bodies = _bodies(subject, project, overrides)
    command = f"firn transform generate --subject {subject}"
    files = compared(project, bodies, command, (folder(subject),))
    rows = [{"file": file.path.relative_to(project).as_posix(), "state": str(file.state)} for file in files]
    print_rows(rows, columns=COLUMNS, as_json=as_json)
    _show_differences(files)
    if edited := [file for file in files if file.state is State.EDITED]:
        raise TerminalError(
            "Generated files were edited by hand, nothing was written:\n" + "\n".join(f"  {e.path}" for e in edited),
            where=str(project),
            next_step="Say the edit in the overrides and restore the file, or delete its first two lines to own it.",
        )
    pending = [file for file in files if file.state in (State.NEW, State.CHANGED, State.OBSOLETE)]
    if check and pending:
        raise TerminalError(
            f"{len(pending)} of {len(files)} files are not what the subject's schema gives.",
            where=str(project),
            next_step=f"Run `{command}` without --check, and look at the difference.",
        )
    if not check:
        write(files)
        say(f"{len(pending)} of {len(files)} files written in {project}.")


def _project(given: Path | None) -> Path:
    from firn.dbt.process import PROJECT

    project = (given or PROJECT).resolve()
    if not (project / "dbt_project.yml").is_file():
        raise ConfigError(
            "This is no dbt project: it has no dbt_project.yml.",
            where=str(project),
            next_step="Name the folder of a dbt project with --project-dir.",
        )
    return project


def _bodies(subject: str, project: Path, overrides: Path | None) -> dict[str, str]:
    from firn.modelling.generate import base_name, described, generated
    from firn.modelling.overrides import Overrides, read_overrides
    from firn.registry.login import login_from_secret, registry_client
    from firn.registry.schemas import subject_versions
    from firn.retry import with_retries
    from firn.secrets import RegistrySecret, read_secret
    from firn.settings import load_settings

    settings = load_settings()
    usual = project / "firn" / f"{base_name(subject)}.yml"
    file = overrides or (usual if usual.exists() else None)
    said = read_overrides(file) if file else Overrides()
    client = registry_client(login_from_secret(read_secret(settings, settings.registry_secret_id, RegistrySecret)))
    versions = with_retries(settings.retry_deadline_seconds, subject_versions, client, subject)
    place = settings.snowflake_database, settings.snowflake_schema
    return generated(subject, described(subject, versions, said.message), place, said)


def _show_differences(files: list[GeneratedFile]) -> None:
    """Unified diffs on stderr: stdout has the list of files."""
    from firn.modelling.files import State

    for file in files:
        if file.difference and file.state is not State.NEW:
            sys.stderr.write(file.difference + "\n")
