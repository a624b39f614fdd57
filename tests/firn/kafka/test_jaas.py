"""The JAAS text of a Kafka login, read as Java reads it, and what librdkafka can make of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.kafka.jaas import JaasError, login_of, parse, quoted, render

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.\-]{0,8}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("m required;", {}),
        ("m Required a=b;", {"a": "b"}),
        ("m required\n  a='x y' // a comment; really\n  b=\"z\" /* and\nanother */ ;", {"a": "x y", "b": "z"}),
        (r'm required a="q\"b\\c\n\101\7z" b="";', {"a": 'q"b\\c\nA\az', "b": ""}),
        (r"""m required a='say "hi"' b="it's";""", {"a": 'say "hi"', "b": "it's"}),
        ("m required a = b_c-d.e$;", {"a": "b_c-d.e$"}),
        ('m required a="b=c;d";', {"a": "b=c;d"}),
        ("m required a=schlüssel;", {"a": "schlüssel"}),
    ],
)
def test_texts_and_what_java_makes_of_them(text, options):
    assert parse(text) == ("m", options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "m",
        "m required",
        "m needed a=b;",
        "m required a=b",
        "m required a;",
        "m required a=;",
        "m required a=1b;",
        "m required =b;",
        "m required a b;",
        'm required a="b;',
        'm required a="b\nc";',
        "m required; n required;",
        "m required a=b@c;",
    ],
)
def test_texts_that_java_refuses(text):
    with pytest.raises(JaasError):
        parse(text)


@settings(max_examples=200)
@given(st.dictionaries(NAMES, st.text(), max_size=4))
def test_what_is_written_is_read_again(options):
    text = render("PLAIN", options)
    assert parse(text) == (PLAIN, options)


@settings(max_examples=200)
@given(st.text(alphabet="""ab1=;"'\\/*\n .-_$ü""", max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        _, options = parse(f"m required {text}")
    except JaasError:
        return
    assert all(isinstance(value, str) for value in options.values())


def test_a_login_says_for_which_mechanisms_it_is():
    assert login_of(f"{PLAIN} required username=u password=p;").mechanisms == ("PLAIN",)
    assert "SCRAM-SHA-512" in login_of(f"{SCRAM} required username=u password=p;").mechanisms
    login = login_of(f"{OAUTH} required clientId=i clientSecret=s extension_logicalCluster=lkc;")
    assert (login.mechanisms, login.extensions) == (("OAUTHBEARER",), {"logicalCluster": "lkc"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"kafkashaded.{PLAIN} required username=u password=p;", "not known here. Known are"),
        ("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;", "Use PLAIN, SCRAM, OAUTHBEARER"),
        (f"{PLAIN} required username=u;", "lacks password"),
        (f'{SCRAM} required username=u password=p tokenauth="true";', "delegation token. Give user and password"),
        (f"{OAUTH} required clientId=i;", "lacks clientSecret"),
        (f"{OAUTH} required clientId=i clientSecret=s unsecuredLoginStringClaim_sub=x;", "unsecuredLogin"),
    ],
)
def test_a_login_that_the_client_cannot_use_is_refused(text, message):
    with pytest.raises(JaasError, match=message):
        login_of(text)


def test_no_message_and_no_repr_holds_a_value():
    secret = "hunter2hunter2"
    for text in (f'{PLAIN} required username=u password="{secret};', f"{OAUTH} required x={secret};"):
        with pytest.raises(JaasError) as refused:
            login_of(text)
        assert secret not in str(refused.value)
    assert secret not in repr(login_of(f"{PLAIN} required username=u password={quoted(secret)};"))
