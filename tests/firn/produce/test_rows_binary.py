"""A file that is no CSV at all is refused with a sentence, whatever is in it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from firn.errors import FirnError
from firn.produce.rows import open_rows


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes_are_no_csv(tmp_path: Path, seed: int) -> None:
    file = tmp_path / "data.csv"
    file.write_bytes(random.Random(seed).randbytes(3000))
    with pytest.raises(FirnError) as raised:
        open_rows(file)
    assert "line 1" in raised.value.where
    str(raised.value).encode()
