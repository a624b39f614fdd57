"""Functions that make or measure texts: documented results of Snowflake."""

from __future__ import annotations

import pytest
from snowflake.connector.errors import ProgrammingError

from tests.firn_local.snowflake.in_process import InProcess, run

MOMENT = "'2024-01-02 03:04:05.123456'"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (f"TO_VARCHAR({MOMENT}::TIMESTAMP_NTZ, 'YYYY-MM-DD\"T\"HH24:MI:SS.FF9')", "2024-01-02T03:04:05.123456000"),
        (
            f"TO_CHAR({MOMENT}::TIMESTAMP_TZ, 'YYYY-MM-DD\"T\"HH24:MI:SS.FF9TZH:TZM')",
            "2024-01-02T03:04:05.123456000+00:00",
        ),
        ("TO_VARCHAR('2024-01-02'::DATE, 'DD.MM.YYYY')", "02.01.2024"),
        ("TO_VARCHAR('03:04:05.5'::TIME, 'HH24:MI:SS.FF3')", "03:04:05.500"),
        ("TO_VARCHAR(TO_BINARY('00ff', 'HEX'), 'HEX')", "00FF"),
        (
            "TO_VARCHAR(CONVERT_TIMEZONE('UTC', '2024-01-02 03:04:05+00:00'::TIMESTAMP_TZ), "
            "'yyyy-mm-dd HH24:MI'||'UTC')",
            "2024-01-02 03:04UTC",
        ),
        ("TO_CHAR('2024-01-02 15:04:05'::TIMESTAMP_NTZ, 'Dy, DD MON YYYY HH12:MI AM')", "Tue, 02 Jan 2024 03:04 PM"),
        ("OCTET_LENGTH('é')", 2),
    ],
)
def test_a_text_is_made_as_its_format_says(server: InProcess, expression: str, text: str | int) -> None:
    with server.connect() as connection:
        assert run(connection, f"SELECT {expression}") == [(text,)]


def test_a_format_of_numbers_is_refused_by_name(server: InProcess) -> None:
    with server.connect() as connection, pytest.raises(ProgrammingError, match="TO_VARCHAR format 999"):
        run(connection, "SELECT TO_VARCHAR(1, '999')")


def test_a_hash_is_the_same_each_time_and_a_signed_number_of_64_bits(server: InProcess) -> None:
    with server.connect() as connection:
        rows = run(connection, "SELECT HASH(V), HASH(V) FROM (VALUES ('a'), ('b'), ('c'), ('d'), ('e'), ('f')) AS T(V)")
    assert all(first == second for first, second in rows)
    assert min(rows)[0] < 0 < max(rows)[0]
    assert max(abs(first) for first, _ in rows) < 2**63
