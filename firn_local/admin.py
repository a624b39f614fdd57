"""The administrator of the embedded Snowflake: its key, its login, and `python -m firn_local.admin "<statement>"`.

For what a service role may not do: schemas, grants, users. The key lies in a file of the stack's home (mode 0600), not
in Secrets Manager, so nothing that the service user can read makes it an administrator.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import SecretStr

from firn.errors import FirnError, TerminalError
from firn.settings import PROJECT_ROOT, Settings
from firn.snowflake.connection import SnowflakeLogin, connect
from firn.snowflake.statements import run_statements
from firn_local.home import LOOPBACK, Home, write_private

ACCOUNT = "firn-local"
ADMIN_USER = "FIRN_ADMIN"


def new_private_key() -> str:
    """A fresh key of 2048 bits as PKCS#8 PEM, without a passphrase."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def key_file(home: Home) -> Path:
    """Where the administrator's key is."""
    return home.root / "data" / "snowflake" / "admin.pem"


def ensure_key(home: Home) -> SecretStr:
    """The administrator's private key, made when absent."""
    file = key_file(home)
    if not file.exists():
        write_private(file, new_private_key())
    return SecretStr(file.read_text())


def admin_login(home: Home, settings: Settings) -> SnowflakeLogin:
    """The administrator's login. Raises TerminalError while the stack has no key for it."""
    _check_made(home)
    return SnowflakeLogin(
        account=ACCOUNT,
        user=ADMIN_USER,
        role="ACCOUNTADMIN",
        warehouse=settings.snowflake_warehouse,
        database=settings.snowflake_database,
        schema=settings.snowflake_schema,
        host=LOOPBACK,
        port=home.ports["snowflake"],
        protocol="http",
        private_key=SecretStr(key_file(home).read_text()),
    )


def _check_made(home: Home) -> None:
    if not key_file(home).exists() or "snowflake" not in home.ports:
        raise TerminalError(
            "There is no administrator's key.", where=str(key_file(home)), next_step="Start the stack: `firn up`."
        )


def main() -> None:
    """Run statements as the administrator; rows come as JSON lines. Ends with the error's exit code."""
    home = Home.load(Path(os.environ.get("FIRN_HOME", PROJECT_ROOT / ".local")))
    try:
        _check_made(home)
        with connect(admin_login(home, home.settings()), query_tag="firn-admin") as connection:
            for result in run_statements(connection, " ".join(sys.argv[1:])):
                for row in result.rows:
                    sys.stdout.write(json.dumps(row, default=str) + "\n")
    except FirnError as error:
        sys.stderr.write(f"Error: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
