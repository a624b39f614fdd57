"""Where one stack lives: its folder (FIRN_HOME), its ports, and what is derived from the two. Starts nothing.

stack.json   the ports, chosen at the first start and kept
stack.env    settings for clients (`firn.settings`), there while the stack is up
data/<s>/    state of server s        logs/<s>.log   its output        run/<s>.json   its process
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from firn.errors import TerminalError
from firn.settings import PROJECT_ROOT, Settings

LOOPBACK = "127.0.0.1"
# Fetched once by `make setup` and shared by every stack of this checkout.
JVM_DIR = PROJECT_ROOT / ".local" / "jvm"
# moto accepts any key, so these open nothing: they only keep boto3 from looking for real ones.
AWS_ACCESS_KEY_ID = AWS_SECRET_ACCESS_KEY = "local"  # noqa: S105
ANALYSTS_LOGIN = "snowflake/analytics-developer"
"""The secret of the login of dbt and `firn sql`."""


@dataclass(frozen=True)
class Home:
    """One stack's folder and its ports by name."""

    root: Path
    ports: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, root: Path) -> Home:
        """The home at `root` with the ports it remembers. Raises TerminalError when its stack.json is damaged."""
        root = root.resolve()
        try:
            remembered = json.loads((root / "stack.json").read_text())["ports"]
            return cls(root, {str(name): int(port) for name, port in remembered.items()})
        except FileNotFoundError:
            return cls(root)
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise TerminalError(
                "The remembered ports cannot be read.",
                where=str(root / "stack.json"),
                next_step="Delete that file and run `firn up`: it chooses new ports.",
            ) from error

    def save(self) -> None:
        """Remember the ports."""
        write_private(self.root / "stack.json", json.dumps({"ports": dict(self.ports)}, indent=2) + "\n")

    def data(self, server: str) -> Path:
        """The server's data folder, made when absent, for its owner only."""
        folder = self.root / "data" / server
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    def log(self, server: str) -> Path:
        """The server's log file."""
        return self.root / "logs" / f"{server}.log"

    def pid_file(self, server: str) -> Path:
        """Where the server's process is written down."""
        return self.root / "run" / f"{server}.json"

    def address(self, port: str) -> str:
        """host:port of a named port."""
        return f"{LOOPBACK}:{self.ports[port]}"

    def url(self, port: str) -> str:
        """http://host:port of a named port."""
        return f"http://{self.address(port)}"

    @property
    def ca_file(self) -> Path:
        """PEM of the CA that signed the broker's certificate."""
        return self.root / "data" / "kafka" / "ca.pem"

    @property
    def snowflake_data(self) -> Path:
        """What the local Snowflake keeps."""
        return self.root / "data" / "snowflake" / "db"

    @property
    def streaming_url(self) -> str:
        """Snowpipe Streaming's url."""
        return f"https://{self.address('snowflake-streaming')}"

    @property
    def snowflake_ca_file(self) -> Path:
        """PEM of the system's CAs and the one that signed the certificate of Snowpipe Streaming."""
        return self.snowflake_data / "streaming" / "trusted.pem"

    @property
    def client_certificate(self) -> Path:
        """PEM keystore (key, certificate, CA) of the client that the broker's mutual TLS listener lets in."""
        return self.root / "data" / "kafka" / "client.pem"

    def settings(self) -> Settings:
        """The settings with which the stack's own servers read their credentials."""
        return Settings(  # type: ignore[call-arg]
            home=self.root,
            aws_endpoint_url=self.url("secrets-manager"),
            aws_access_key_id=SecretStr(AWS_ACCESS_KEY_ID),
            aws_secret_access_key=SecretStr(AWS_SECRET_ACCESS_KEY),
            retry_deadline_seconds=10,
        )

    def client_environment(self) -> dict[str, str]:
        """The variables of stack.env: the settings that differ from a cloud's. No Kafka or Snowflake credential."""
        return {
            "FIRN_AWS_ENDPOINT_URL": self.url("secrets-manager"),
            "FIRN_AWS_ACCESS_KEY_ID": AWS_ACCESS_KEY_ID,
            "FIRN_AWS_SECRET_ACCESS_KEY": AWS_SECRET_ACCESS_KEY,
            "FIRN_DBT_SECRET_ID": ANALYSTS_LOGIN,
            "FIRN_SQL_SECRET_ID": ANALYSTS_LOGIN,
            "FIRN_KAFKA_SSL_CA_LOCATION": str(self.ca_file),
            "FIRN_SNOWFLAKE_STREAMING_URL": self.streaming_url,
            "FIRN_SNOWFLAKE_CA_FILE": str(self.snowflake_ca_file),
            "FIRN_PREFECT_API_URL": f"{self.url('prefect')}/api",
            # No settings: for connectors that try mutual TLS, by ${env:...}.
            "FIRN_LOCAL_KAFKA_MUTUAL_TLS": self.address("kafka-mutual-tls"),
            "FIRN_LOCAL_KAFKA_CLIENT_CERTIFICATE": str(self.client_certificate),
        }

    @property
    def env_file(self) -> Path:
        """stack.env, which `firn.settings` reads."""
        return self.root / "stack.env"

    def write_env(self) -> None:
        """Tell the clients of this checkout where the stack is."""
        lines = [f"{name}='{value}'" for name, value in self.client_environment().items()]
        write_private(self.env_file, "# Written by `firn up`, removed by `firn down`.\n" + "\n".join(lines) + "\n")


def write_private(path: Path, text: str) -> None:
    """Replace a file as a whole, readable by its owner only (mode 0600) from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
