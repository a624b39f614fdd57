"""Tokens read back as they were written, order as rows do, and mean nothing to another generation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.channels.tokens import Token, next_offset

OFFSETS = st.integers(0, 2**63 - 1)
GENERATIONS = st.integers(0, 10**9)
TOKENS = st.builds(Token, GENERATIONS, OFFSETS)


@given(TOKENS)
def test_a_token_reads_back_as_it_was_written(token: Token) -> None:
    assert Token.parse(str(token)) == token


@given(TOKENS, TOKENS)
def test_tokens_order_by_generation_and_then_by_offset_whatever_their_lengths(one: Token, two: Token) -> None:
    assert (one < two) == ((one.generation, one.offset) < (two.generation, two.offset))


@given(st.text())
def test_a_text_is_a_token_only_where_a_sink_would_write_it_so(text: str) -> None:
    token = Token.parse(text)
    assert token is None or str(token) == text


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "7",
        ":7",
        "1:",
        "1:-1",
        "01:7",
        "1:07",
        " 1:7",
        "1:7 ",
        "1:7\n",
        "1:7:9",
        "a:b",
        "\u0661:\u0662",
        "1:+7",
    ],
)
def test_foreign_texts_are_no_tokens(text: str | None) -> None:
    assert Token.parse(text) is None
    assert next_offset(text, 1) is None


@given(TOKENS, GENERATIONS)
def test_the_next_offset_is_behind_the_token_and_of_its_own_generation_alone(token: Token, generation: int) -> None:
    assert next_offset(str(token), token.generation) == token.offset + 1
    if generation != token.generation:
        assert next_offset(str(token), generation) is None
