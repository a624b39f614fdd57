"""What the streaming service signs and encrypts with: one secret in a file, so that a restart breaks no client's token.

Scoped tokens are JWTs because the SDK reads their `exp`; the keys of pipes are those of file mode (AES-256-CTR).
"""

from __future__ import annotations

import hmac
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

import jwt

from firn_local.snowflake.streaming.protocol_errors import unauthorized

_ALGORITHM = "HS256"


@dataclass(frozen=True)
class ServerSecret:
    """32 random bytes, and what follows from them."""

    key: bytes

    @classmethod
    def load(cls, file: Path) -> ServerSecret:
        """The secret of a file, made when absent (mode 0600)."""
        if not file.exists():
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as made:
                made.write(secrets.token_bytes(32))
        return cls(file.read_bytes())

    def scoped_token(self, user: str, role: str, seconds: float) -> str:
        """A token that stands for a user and role for a while."""
        said = {"sub": user, "role": role, "exp": int(time.time() + seconds), "jti": secrets.token_hex(8)}
        return jwt.encode(said, self._derived("tokens"), algorithm=_ALGORITHM)

    def holder(self, token: str) -> tuple[str, str]:
        """(user, role) of a token of ours. Raises ProtocolError for any other, and for one that has expired."""
        try:
            said = jwt.decode(token, self._derived("tokens"), algorithms=[_ALGORITHM])
        except jwt.ExpiredSignatureError:
            raise unauthorized("390318", "OAuth access token expired.") from None
        except jwt.PyJWTError:
            raise unauthorized("390303", "Invalid OAuth access token.") from None
        return str(said["sub"]), str(said["role"])

    def pipe_key(self, pipe: str) -> bytes:
        """The key with which clients encrypt the files of a pipe."""
        return self._derived(f"pipe {pipe}")

    def new_folder(self) -> str:
        """A folder of the object store for one client; nobody can guess another one's."""
        name = secrets.token_hex(8)
        return f"{name}-{self._derived(f'folder {name}').hex()[:16]}"

    def is_folder(self, folder: str) -> bool:
        """Whether `new_folder` gave it out."""
        name, _, proof = folder.partition("-")
        return hmac.compare_digest(self._derived(f"folder {name}").hex()[:16], proof)

    def _derived(self, purpose: str) -> bytes:
        return hmac.new(self.key, purpose.encode(), "sha256").digest()
