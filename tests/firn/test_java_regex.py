"""Java's regular expressions, compared with Java's own engine on names as topics have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from firn.java_regex import JavaRegexError, java_regex, matches

Java = Callable[[str, str], bool | None]
NAMES = st.text(alphabet="abmzABMZ019._-", max_size=6)

_CHARACTERS = ["a", "b", "m", "z", "A", "Z", "0", "9", r"\.", "-", "_", r"\x61", r"\u0062", r"\0155", r"\x{7a}", r"\-"]
_SETS = [r"\d", r"\w", r"\s", r"\W", r"\D", r"\S", r"\p{Alpha}", r"\P{Alpha}", r"\p{Lower}", r"\p{Upper}", r"\p{Punct}"]
_SETS += [r"\p{L}", r"\pN", r"\p{Lu}", r"\P{Ll}", r"\p{IsLatin}", r"\p{IsAlphabetic}", r"\p{Alnum}", r"\p{XDigit}"]
_SETS += [r"\h", r"\V", r"\p{javaLowerCase}", r"\p{ASCII}"]
_RANGES = ["a-z", "A-Z", "0-9", "a-m", "b-z", ".--", "A-z"]
_MEMBERS = st.sampled_from([*_CHARACTERS[:-1], *_SETS, *_RANGES, "."])
_UNION = st.lists(_MEMBERS, min_size=1, max_size=3).map("".join)


def _bracketed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operands = st.lists(inner, min_size=1, max_size=3).map("&&".join)
    return st.tuples(st.sampled_from(["[", "[^"]), operands).map(lambda parts: f"{parts[0]}{parts[1]}]")


CLASSES = _bracketed(st.one_of(_UNION, _bracketed(_UNION), st.tuples(_UNION, _bracketed(_UNION)).map("".join)))
_ATOMS = st.one_of(st.sampled_from([*_CHARACTERS, *_SETS, ".", r"\Qa.b\E", r"\Q-\E", "]", "}"]), CLASSES)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.sampled_from(["(", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?x: ", "(?-i:"])
    quantifiers = st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?", "++", "?+"])
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(groups, inner).map(lambda parts: f"{parts[0]}{parts[1]})"),
        st.tuples(groups, inner, quantifiers).map(lambda parts: f"(?:{parts[0]}{parts[1]})){parts[2]}"),
        st.tuples(st.sampled_from(["(?i)", "(?x) ", "(?s)", "^", r"\A", r"\b"]), inner).map("".join),
        st.tuples(inner, st.sampled_from(["$", r"\z", r"\Z", r"\b"])).map("".join),
        inner.map(lambda each: rf"({each})\1"),
    )


EXPRESSIONS = st.recursive(_ATOMS, _larger, max_leaves=6)


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    """Java's String.matches; None where Java refuses the expression."""
    (jar,) = Path(pyspark.__file__).parent.glob("jars/py4j-*.jar")
    gateway = JavaGateway.launch_gateway(jarpath=str(jar), die_on_exit=True)

    def said(expression: str, text: str) -> bool | None:
        try:
            return bool(gateway.jvm.java.util.regex.Pattern.matches(expression, text))
        except Py4JJavaError as error:
            if "PatternSyntaxException" in str(error.java_exception.getClass().getName()):
                return None
            raise

    yield said
    gateway.shutdown()


def ours(expression: str, text: str) -> bool | None:
    try:
        return matches(expression, text)
    except JavaRegexError:
        return None


@settings(max_examples=150, deadline=None)
@given(expression=EXPRESSIONS, names=st.lists(NAMES, min_size=3, max_size=5))
@example(expression=r"[a-z&&[^m]]", names=["a", "m", "b"])
@example(expression=r"(?<x>a)\k<x>", names=["aa", "ab"])
@example(expression=r"(?i)orders\z", names=["ORDERS", "orders."])
@example(expression="[]a]+", names=["a]", "b"])
@example(expression="(?x) a b # tail", names=["ab", "a b"])
@example(expression="(?x)[a b]+", names=["ab", "a b"])
def test_what_an_expression_matches_is_what_java_matches(expression: str, names: list[str], java: Java) -> None:
    for name in names:
        if (expected := java(expression, name)) is not None:  # Java refuses to look back without a bound
            assert ours(expression, name) is expected, (expression, name)


@settings(max_examples=80, deadline=None)
@given(expression=CLASSES, names=NAMES)
def test_a_class_has_the_members_that_java_gives_it(expression: str, names: str, java: Java) -> None:
    for name in names:
        assert ours(expression, name) is java(expression, name), (expression, name)


@pytest.mark.parametrize(
    "expression",
    ["*a", "a**", "a{", "(a", "a)", "[a", "[z-a]", r"\y", r"\1", r"\k<x>", r"\p{Nothing}", "(?P<x>a)", "(?#a)", "\\"],
)
def test_what_java_refuses_is_refused(expression: str, java: Java) -> None:
    if expression != r"\1":  # Java takes it, and it matches nothing
        assert java(expression, "a") is None
    with pytest.raises(JavaRegexError):
        java_regex(expression)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (r"\p{Nothing}", "property Nothing is not known (at character 12)"),
        ("(?U)a", "flag U cannot be followed (at character 1)"),
        ("a{2}{3}", "{3} repeats nothing (at character 5)"),
        ("x[a", "a class is not closed (at character 4)"),
    ],
)
def test_what_cannot_be_said_is_named(expression: str, said: str) -> None:
    with pytest.raises(JavaRegexError) as refused:
        java_regex(expression)
    assert str(refused.value) == said
