"""File mode: what the SDK uploads when a flush is large, and finding a request's rows in it.

The SDK speaks S3 (path style, its body perhaps in aws-chunked form) to the `storage_endpoint` of pipe-info, which is
this server: with none, it would go to Amazon. An object is AES-256-CTR over a zstd frame of NDJSON. Objects are kept in
memory until enough newer ones came; nothing is durable before its rows are committed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import threading
from collections import OrderedDict
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from firn_local.snowflake.streaming.protocol_errors import INVALID_REQUEST, ProtocolError
from firn_local.snowflake.streaming.row_batches import unzstd
from firn_local.snowflake.streaming.server_secret import ServerSecret

BUCKET = "firn-local-streaming"
MOST_BYTES = 256 * 1024 * 1024
_EXPIRES_MS = 3_600_000


class StagedObjects:
    """Uploaded objects by path, folder first."""

    def __init__(self, secret: ServerSecret) -> None:
        self._secret = secret
        self._lock = threading.Lock()
        self._objects: OrderedDict[str, bytes] = OrderedDict()

    def location(self, storage_endpoint: str, now_ms: int) -> dict[str, Any]:
        """Where one client uploads to: a folder of its own, because it numbers its objects from 0."""
        folder = self._secret.new_folder()
        return {
            "location_type": "S3",
            "location": f"{BUCKET}/{folder}/",
            "region": "us-east-1",
            "use_s3_regional_url": False,
            "storage_account": None,
            "storage_endpoint": storage_endpoint,
            "bucket_name": BUCKET,
            "path_prefix": f"{folder}/",
            "expiry_time_ms": now_ms + _EXPIRES_MS,
            "creds": {"AWS_KEY_ID": "local", "AWS_SECRET_KEY": "local", "AWS_TOKEN": "local"},
            "parameters": None,
        }

    def put(self, folder: str, name: str, body: bytes, encoding: str) -> str:
        """Keep an object; its ETag. Raises ProtocolError for a folder that was not given out."""
        if not self._secret.is_folder(folder):
            raise ProtocolError(403, "AccessDenied", "This folder was not given out by pipe-info.")
        content = _unchunked(body) if "aws-chunked" in encoding else body
        with self._lock:
            self._objects[f"{folder}/{name}"] = content
            while len(self._objects) > 1 and sum(map(len, self._objects.values())) > MOST_BYTES:
                self._objects.popitem(last=False)
        return hashlib.md5(content, usedforsecurity=False).hexdigest()

    def rows(self, pipe: str, fragment: dict[str, Any]) -> bytes:
        """The NDJSON of one fragment, as a filebuffer request names it. Raises ProtocolError."""
        try:
            path = str(fragment["file_path"]).removeprefix(f"{BUCKET}/")
            start, length = int(fragment["fragment_start_byte_offset"]), int(fragment["fragment_length_bytes"])
            nonce = base64.b64decode(fragment["iv_base64"])
            with self._lock:
                content = self._objects[path]
            if hashlib.md5(content, usedforsecurity=False).hexdigest() != fragment["file_etag"]:
                raise ProtocolError(400, INVALID_REQUEST, f"{path} is another file than the request says.")
            cipher = Cipher(algorithms.AES(self._secret.pipe_key(pipe)), modes.CTR(nonce)).decryptor()
            return unzstd(cipher.update(content[start : start + length]) + cipher.finalize())
        except KeyError as error:
            raise ProtocolError(400, INVALID_REQUEST, f"{error} was not uploaded, or is not in the request.") from None
        except (ValueError, TypeError, OSError, binascii.Error) as error:
            raise ProtocolError(400, INVALID_REQUEST, f"The fragment cannot be read: {error}") from None

    def encryption(self, pipe: str) -> dict[str, Any]:
        """How a client encrypts the files of a pipe."""
        key = base64.b64encode(self._secret.pipe_key(pipe)).decode()
        return {"pipe_key": key, "pipe_key_id": 0, "diversifier": "01", "encryption_version": 0}


def _unchunked(body: bytes) -> bytes:
    """The content of a body in aws-chunked form: `<hex size>[;signature]` lines in front of each chunk."""
    chunks: list[bytes] = []
    at = 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end].split(b";")[0], 16)
        if size == 0:
            return b"".join(chunks)
        chunks.append(body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
