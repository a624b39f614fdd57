"""moto's AWS Secrets Manager, with its state on disk. A program: `python -m firn_local.servers.secrets_manager --help`.

moto keeps secrets in memory. Here every request that may change them is answered only after all secrets are on disk
(one JSON file, mode 0600), so that what boto3 saw acknowledged survives a crash. Replicas in other regions are lost.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from firn_local.home import LOOPBACK, Home, write_private
from firn_local.process import Launch
from firn_local.servers.server_contract import Server, http_get

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_READS = ("Get", "List", "Describe", "BatchGet")


class SecretsManager(Server):
    """AWS Secrets Manager. Needs nobody; once it works it is seeded."""

    name: ClassVar[str] = "secrets-manager"
    ports: ClassVar[tuple[str, ...]] = ("secrets-manager",)

    def launch(self, home: Home) -> Launch:
        """This module as a program."""
        options = ("--port", str(home.ports["secrets-manager"]), "--data-dir", str(home.data(self.name)))
        return Launch([sys.executable, "-m", __name__, *options], cwd=home.root, env={})

    def check(self, home: Home) -> None:
        """The server answers."""
        http_get(f"{home.url('secrets-manager')}/health")

    def address(self, home: Home) -> str:
        """The endpoint for boto3."""
        return home.url("secrets-manager")

    def settle(self, home: Home) -> None:
        """Make the three secrets, and point the ones that exist to today's ports."""
        from firn_local.servers.seed import seed_secrets

        seed_secrets(home)


class Store:
    """All secrets of moto's memory, to and from one JSON file."""

    def __init__(self, path: Path, backends: Any) -> None:
        self._path, self._backends = path, backends
        self._lock = threading.Lock()

    def load(self) -> None:
        """Put the file's secrets into moto's memory; no file means none."""
        from moto.secretsmanager.models import FakeSecret

        if not self._path.exists():
            return
        for fields in json.loads(self._path.read_text()):
            secret: Any = FakeSecret.__new__(FakeSecret)
            vars(secret).update(fields, replicas=[])
            self._backends[secret.account_id][secret.region].secrets[secret.name] = secret

    def save(self) -> None:
        """Write all secrets to the file, whole or not at all."""
        from moto.secretsmanager.models import FakeSecret

        with self._lock:
            kept = [
                {name: value for name, value in vars(secret).items() if name != "replicas"}
                for regions in self._backends.values()
                for backend in regions.values()
                for secret in dict.values(backend.secrets)
                if isinstance(secret, FakeSecret)
            ]
            write_private(self._path, json.dumps(kept))


def durable(app: WSGIApplication, store: Store) -> WSGIApplication:
    """`app`, except that an answer to a change is given only when the change is on disk; GET /health says ok."""

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/health":
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [b"ok"]
        answer = app(environ, start_response)
        action = str(environ.get("HTTP_X_AMZ_TARGET", "")).rpartition(".")[2]
        if environ["REQUEST_METHOD"] != "GET" and not action.startswith(_READS):
            store.save()
        return answer

    return serve


def main() -> None:
    """Parse the command line and serve until a signal."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help=f"port on {LOOPBACK}")
    parser.add_argument("--data-dir", type=Path, required=True, help="where the secrets are kept")
    options = parser.parse_args()

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from moto.secretsmanager.models import secretsmanager_backends
    from werkzeug.serving import WSGIRequestHandler, run_simple

    class Quiet(WSGIRequestHandler):
        def log_request(self, code: Any = "-", size: Any = "-") -> None:
            """Errors are logged; each request is not."""

    store = Store(options.data_dir / "secrets.json", secretsmanager_backends)
    store.load()
    app = durable(DomainDispatcherApplication(create_backend_app), store)
    run_simple(LOOPBACK, options.port, app, threaded=True, request_handler=Quiet)


if __name__ == "__main__":
    main()
