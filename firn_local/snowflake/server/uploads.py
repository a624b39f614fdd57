"""Files on their way into a stage: where a PUT tells its client to upload them, and receiving them.

As fakesnow's server does it: the only store that the connector uploads to over plain http is a presigned GCS url.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlglot import Expr

from firn_local.snowflake.engine.account import Account


def announced(account: Account, translated: Expr | None, base_url: str) -> dict[str, Any] | None:
    """For a PUT (as DuckDB got it), what the client needs to upload its file to `base_url`; None for others."""
    data: dict[str, Any] | None = translated.args.get("put_stage_data") if translated is not None else None
    if translated is None or data is None:
        return None
    target = Path(data["stageInfo"]["location"]) / Path(data["src_locations"][0]).name
    path = str(target.relative_to(account.store.stages_dir))
    stage_info = {
        "locationType": "GCS",
        "location": f"{translated.args['put_stage_name']}/",
        "creds": {},
        "presignedUrl": f"{base_url}{quote(path)}?signature={account.sign(path)}",
    }
    return {**data, "stageInfo": stage_info}


def is_signed(account: Account, path: str, signature: str) -> bool:
    """Whether a PUT statement gave out this upload."""
    return hmac.compare_digest(account.sign(path), signature)


async def receive(account: Account, path: str, chunks: AsyncIterator[bytes]) -> bool:
    """Write a file into its stage, complete or not at all. False for a path that leads elsewhere."""
    root = account.store.stages_dir
    target = Path(os.path.normpath(root / path))
    if not target.is_relative_to(root) or target == root:
        return False
    part = account.store.data_dir / "tmp" / f"put-{os.urandom(8).hex()}"
    with part.open("wb") as file:
        async for chunk in chunks:
            file.write(chunk)
    target.parent.mkdir(parents=True, exist_ok=True)
    part.replace(target)
    return True
