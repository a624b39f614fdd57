"""The streaming endpoint of one local Snowflake: its certificate, its thread of commits, its HTTPS server.

    with StreamingEndpoint(snowflake) as streaming:
        streaming.url, streaming.ca_file      # what the SDK needs: `url`, and SSL_CERT_FILE
        streaming.faults.add(throttled(times=2))
        streaming.administration.set(commit_paused=True)

Close it before the local Snowflake: what waits is committed then.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType

from firn_local.snowflake.instance import LocalSnowflake
from firn_local.snowflake.streaming.admin import Administration
from firn_local.snowflake.streaming.certificates import Certificates
from firn_local.snowflake.streaming.channels import Channels, CommitSettings
from firn_local.snowflake.streaming.committer import Committer
from firn_local.snowflake.streaming.faults import Faults
from firn_local.snowflake.streaming.http_server import StreamingHttpServer
from firn_local.snowflake.streaming.row_loader import RowLoader
from firn_local.snowflake.streaming.server_secret import ServerSecret
from firn_local.snowflake.streaming.service import StreamingService

HOST = "127.0.0.1"


class StreamingEndpoint:
    """Serves from its construction until `close`. `port` 0 takes a free one; `commit_delay` is in seconds."""

    def __init__(self, snowflake: LocalSnowflake, *, port: int = 0, commit_delay: float = 0.1) -> None:
        folder = snowflake.account.store.data_dir / "streaming"
        certificates = Certificates(folder)
        certificates.ensure()
        self.ca_file: Path = certificates.trusted
        self.faults = Faults()
        self.channels = Channels(snowflake.account.store, CommitSettings(commit_delay))
        secret = ServerSecret.load(folder / "secret")
        service = StreamingService(snowflake, secret, self.channels, HOST)
        self.administration = Administration(self.faults, self.channels, service)
        self._server = StreamingHttpServer(port, certificates.server, service, self.faults, self.administration)
        self.port: int = self._server.server_address[1]
        service.storage_endpoint = f"{HOST}:{self.port}"
        self._committer = Committer(self.channels, RowLoader(snowflake, lambda pipe: self.faults.rejections(pipe.name)))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="streaming-https", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """What the SDK takes as `url`."""
        return f"https://{HOST}:{self.port}"

    def close(self) -> None:
        """Take nothing more, and commit what waits, unless commits are paused."""
        self._server.close()
        self._thread.join()
        self._committer.close()

    def __enter__(self) -> StreamingEndpoint:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()
