"""Quoted names may hold dots: what is around such an object is its schema, for rights as for everything else."""

from __future__ import annotations

import pytest

from firn_local.snowflake.sql.full_names import around, own_name


@pytest.mark.parametrize(
    ("name", "place", "own"), [("D.S.a.b.c", "D.S", "a.b.c"), ("D.S.T", "D.S", "T"), ("D.S", "D", "S"), ("D", "", "D")]
)
def test_only_the_last_part_holds_dots(name: str, place: str, own: str) -> None:
    assert (around(name), own_name(name)) == (place, own)
