"""Apicurio Registry with its Confluent-compatible API, basic authentication, and schemas in an H2 file.

Source: https://www.apicur.io/registry/docs/apicurio-registry/3.0.x/. Apicurio keeps everything in memory unless told
otherwise; the file keeps schema ids over a restart and over a crash.
"""

from __future__ import annotations

from typing import ClassVar

from firn.errors import TerminalError
from firn.secrets import RegistrySecret, read_secret
from firn_local.home import LOOPBACK, Home, write_private
from firn_local.process import Launch
from firn_local.servers.server_contract import Server, http_get, java, jvm_part


class SchemaRegistry(Server):
    """The schema registry. Its credentials are those of the registry secret at the time it starts."""

    name: ClassVar[str] = "schema-registry"
    ports: ClassVar[tuple[str, ...]] = ("schema-registry",)
    needs: ClassVar[tuple[str, ...]] = ("secrets-manager",)

    def launch(self, home: Home) -> Launch:
        """Write application.properties, which Quarkus reads from config/ of its working directory."""
        settings = home.settings()
        secret = read_secret(settings, settings.registry_secret_id, RegistrySecret)
        folder = home.data(self.name)
        write_private(folder / "config" / "application.properties", _properties(home, secret))
        jars = list(jvm_part("registry").glob("*-runner.jar"))
        if len(jars) != 1:
            raise TerminalError(
                "Apicurio Registry is not complete.", where=str(jvm_part("registry")), next_step="Run `make setup`."
            )
        # The JVM's first compiler is enough for a registry and starts twice as fast.
        options = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        return Launch([java(), *options, "-jar", str(jars[0])], cwd=folder, env={})

    def check(self, home: Home) -> None:
        """Apicurio's readiness: its storage answers."""
        http_get(f"{home.url('schema-registry')}/health/ready")

    def address(self, home: Home) -> str:
        """The Confluent-compatible URL."""
        return registry_url(home)


def registry_url(home: Home) -> str:
    """The `url` of the registry secret."""
    return f"{home.url('schema-registry')}/apis/ccompat/v7"


def _properties(home: Home, secret: RegistrySecret) -> str:
    user, password = secret.api_key.get_secret_value(), secret.api_secret.get_secret_value()
    lines = {
        "quarkus.http.host": LOOPBACK,
        "quarkus.http.port": str(home.ports["schema-registry"]),
        # H2 answers a commit before it is on disk unless the write delay is 0: a crash would then lose schema ids.
        "apicurio.datasource.url": f"jdbc:h2:file:{home.data(SchemaRegistry.name) / 'registry'};WRITE_DELAY=0",
        "apicurio.datasource.jdbc.initial-size": "2",
        "apicurio.datasource.jdbc.min-size": "2",
        "apicurio.datasource.jdbc.max-size": "10",
        "quarkus.http.auth.basic": "true",
        "quarkus.http.auth.permission.apis.paths": "/apis/*",
        "quarkus.http.auth.permission.apis.policy": "authenticated",
        "quarkus.security.users.embedded.plain-text": "true",
        f"quarkus.security.users.embedded.users.{user}": password,
        f"quarkus.security.users.embedded.roles.{user}": "sr-admin",
        "quarkus.http.access-log.enabled": "false",
    }
    return "".join(f"{name}={_escaped(value)}\n" for name, value in lines.items())


def _escaped(value: str) -> str:
    # A backslash is an escape to Java's properties files, and `${` the start of an expression to Quarkus.
    return value.replace("\\", "\\\\").replace("${", "\\\\${")
