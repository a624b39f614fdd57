"""The shape every server of the stack has, so that knowing one is knowing all. Holds no server and no supervision."""

from __future__ import annotations

import os
import shutil
import ssl
import urllib.request
from pathlib import Path
from typing import ClassVar

from firn.errors import TerminalError
from firn_local.home import JVM_DIR, Home
from firn_local.process import Launch


class NotHealthy(Exception):  # noqa: N818  (a state, not a fault of the program)
    """The server does not do its work (yet); the text says what was seen."""


class Server:
    """One server: what to start, how to see that it works, and what to do once it does."""

    name: ClassVar[str]
    ports: ClassVar[tuple[str, ...]] = ()
    """Names of the ports it listens on."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Servers that must work before this one starts."""
    start_seconds: ClassVar[float] = 60.0
    """How long a start may take on a busy machine."""
    stop_seconds: ClassVar[float] = 15.0
    """How long it gets to close its files before it is killed."""

    def launch(self, home: Home) -> Launch:
        """Write the server's configuration and say what to start."""
        raise NotImplementedError

    def check(self, home: Home) -> None:
        """Return if the server works. Raises NotHealthy."""
        raise NotImplementedError

    def address(self, home: Home) -> str:
        """Where a person or client finds it; empty for a server that listens nowhere."""
        raise NotImplementedError

    def also(self, home: Home) -> str:  # noqa: ARG002
        """Where else it is found, as the end of a sentence; empty for most."""
        return ""

    def settle(self, home: Home) -> None:
        """What has to be so once the server works; called at every `firn up`, so it must be idempotent."""


# A proxy of the environment is for the outside world, never for loopback.
_NO_PROXY = urllib.request.ProxyHandler({})


def open_loopback(
    request: str | urllib.request.Request, timeout_seconds: float = 3.0, *, trust: ssl.SSLContext | None = None
) -> bytes:
    """The body of a good answer; `trust` is for https. Raises OSError (HTTPError for a status of 400 and above)."""
    opener = urllib.request.build_opener(_NO_PROXY, urllib.request.HTTPSHandler(context=trust))
    with opener.open(request, timeout=timeout_seconds) as answer:
        return bytes(answer.read())


def http_get(url: str, ca_file: Path | None = None) -> bytes:
    """The body of a good answer; over https `ca_file` has the CAs to trust. Raises NotHealthy."""
    try:
        return open_loopback(url, trust=ssl.create_default_context(cafile=ca_file) if ca_file else None)
    except OSError as error:
        raise NotHealthy(f"{url}: {getattr(error, 'reason', None) or error}") from error


def java() -> str:
    """The Java program. Raises TerminalError when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which("java")
    if found is None:
        raise TerminalError("Java was not found.", where="JAVA_HOME and PATH", next_step="Run `make setup`.")
    return found


def jvm_part(name: str) -> Path:
    """The folder of one of the JVM parts. Raises TerminalError when it was not fetched."""
    folder = JVM_DIR / name
    if not folder.is_dir():
        raise TerminalError("The JVM parts of the stack are absent.", where=str(folder), next_step="Run `make setup`.")
    return folder
