"""`firn export logs`: the log of an export's driver, from the files of this machine."""

from __future__ import annotations

from firn.errors import TerminalError
from flows.cli.log_lines import AsIsOption, FollowOption, LinesOption, name_in, print_log
from flows.cli.sink.arguments import ConfigArgument


def logs(
    config: ConfigArgument, follow: FollowOption = False, lines: LinesOption = 100, as_json: AsIsOption = False
) -> None:
    """Print the newest lines of an export's log."""
    from firn.operations.log_files import driver_log
    from firn.settings import load_settings

    settings, name = load_settings(), name_in(config, "export")
    file = driver_log(settings, name, "export")
    if not file.is_file():
        raise TerminalError(
            f"Export {name} has no log on this machine.",
            where=str(file),
            next_step="The machine that runs the export writes it, in logs/ of FIRN_HOME "
            f"({settings.home}), from the first start of its driver on.",
        )
    print_log(file, follow=follow, lines=lines, as_json=as_json)
