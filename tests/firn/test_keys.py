"""Private keys arrive in every text form that secrets and connector files hold."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from itertools import product

import pytest
from cryptography.hazmat.primitives import serialization as ser
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from firn.errors import ConfigError
from firn.keys import IN_CONNECTOR, KeyPlace, private_key_der

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
DER = KEY.private_bytes(ser.Encoding.DER, ser.PrivateFormat.PKCS8, ser.NoEncryption())
PASSPHRASE = "winter #1 'ü'"


def pem(form: ser.PrivateFormat, passphrase: str = "", key: object = KEY) -> str:
    encryption = ser.BestAvailableEncryption(passphrase.encode()) if passphrase else ser.NoEncryption()
    return key.private_bytes(ser.Encoding.PEM, form, encryption).decode()  # type: ignore[attr-defined]


def openssl(*arguments: str) -> str:
    """`KEY` as openssl writes it; the passphrase is in the variable PASS."""
    clear = pem(ser.PrivateFormat.PKCS8)
    done = subprocess.run(
        ["openssl", *arguments], input=clear, capture_output=True, text=True, check=True, env={"PASS": PASSPHRASE}
    )
    return done.stdout


FORMATS: dict[str, Callable[[], str]] = {
    "PKCS#8": lambda: pem(ser.PrivateFormat.PKCS8),
    "PKCS#1": lambda: pem(ser.PrivateFormat.TraditionalOpenSSL),
    "PKCS#8, encrypted": lambda: pem(ser.PrivateFormat.PKCS8, PASSPHRASE),
    "PKCS#8, encrypted by openssl": lambda: openssl("pkcs8", "-topk8", "-v2", "aes256", "-passout", "env:PASS"),
    "PKCS#8, encrypted with 3DES": lambda: openssl("pkcs8", "-topk8", "-v2", "des3", "-passout", "env:PASS"),
    "PKCS#1, encrypted": lambda: pem(ser.PrivateFormat.TraditionalOpenSSL, PASSPHRASE),
    "PKCS#1, encrypted by openssl": lambda: openssl(
        "rsa", "-traditional", "-aes128", "-in", "/dev/stdin", "-passout", "env:PASS"
    ),
}
BUILT = {name: make() for name, make in FORMATS.items()}


def bare(text: str) -> str:
    """The body without its frame, in one line. How an old encrypted key is encrypted stands in its body."""
    return "".join(line for line in text.splitlines() if not line.startswith("-----"))


SHAPES: dict[str, Callable[[str], str]] = {
    "headers": str,
    "no headers": bare,
    "no headers, lines": lambda text: "\n".join(line for line in text.splitlines() if not line.startswith("-----")),
    "escaped newlines": lambda text: text.replace("\n", "\\n"),
    "escaped Windows newlines": lambda text: text.replace("\n", "\\r\\n"),
    "Windows newlines": lambda text: text.replace("\n", "\r\n"),
    "indented": lambda text: "\n".join("    " + line for line in text.splitlines()),
    "quoted": lambda text: f'"{text.strip()}"',
    "one line": lambda text: text.replace("\n", " "),
}
EVERY = list(product(FORMATS, SHAPES))


@pytest.mark.parametrize(("kind", "shape"), EVERY)
def test_every_format_in_every_text_form_gives_the_same_key(kind: str, shape: str) -> None:
    passphrase = SecretStr(PASSPHRASE) if "encrypted" in kind else None
    assert private_key_der(SecretStr(SHAPES[shape](BUILT[kind])), passphrase) == DER


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(sorted(FORMATS)),
    shape=st.sampled_from(sorted(SHAPES)),
    before=st.sampled_from(["", " ", "\n", "\t\n", "\ufeff"]),
    after=st.sampled_from(["", " ", "\n\n", "\\n"]),
)
def test_blanks_around_a_key_do_not_matter(kind: str, shape: str, before: str, after: str) -> None:
    passphrase = SecretStr(PASSPHRASE) if "encrypted" in kind else None
    assert private_key_der(SecretStr(before + SHAPES[shape](BUILT[kind]) + after), passphrase) == DER


def refusal(text: str, passphrase: str | None = None) -> str:
    """What is said of a key that is refused; never a part of the key or its passphrase."""
    with pytest.raises(ConfigError) as raised:
        private_key_der(SecretStr(text), None if passphrase is None else SecretStr(passphrase))
    said = f"{raised.value} {raised.value!r} {raised.value.__cause__!r}"
    assert not any(
        line in said for line in text.replace("\\n", "\n").splitlines() if len(line) > 20 and "-" not in line
    )
    assert not passphrase or passphrase not in said
    assert raised.value.next_step
    return said


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if "encrypted" in kind])
@pytest.mark.parametrize("shape", ["headers", "no headers", "escaped newlines"])
def test_an_encrypted_key_wants_its_passphrase(kind: str, shape: str) -> None:
    text = SHAPES[shape](BUILT[kind])
    assert "no passphrase" in refusal(text)
    assert "no passphrase" in refusal(text, "")
    assert "passphrase does not fit" in refusal(text, "summer of 69")


@pytest.mark.parametrize("kind", ["PKCS#8", "PKCS#1"])
@pytest.mark.parametrize("shape", ["headers", "no headers", "escaped newlines"])
def test_a_passphrase_beside_an_open_key_is_ignored(kind: str, shape: str) -> None:
    assert private_key_der(SecretStr(SHAPES[shape](BUILT[kind])), SecretStr(PASSPHRASE)) == DER


@pytest.mark.parametrize(
    ("place", "where", "names"),
    [
        (KeyPlace("secret a/b"), "private_key in secret a/b", ("private_key", "private_key_passphrase")),
        (
            IN_CONNECTOR,
            "snowflake.private.key in the connector file",
            ("snowflake.private.key", "snowflake.private.key.passphrase"),
        ),
    ],
)
def test_a_fault_names_where_the_key_stands_and_what_mends_it(
    place: KeyPlace, where: str, names: tuple[str, str]
) -> None:
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    texts = {
        "bits or more": pem(ser.PrivateFormat.PKCS8, key=short),
        f"whole key into {names[0]}": "nonsense!",
        f"Add {names[1]} to": BUILT["PKCS#8, encrypted"],
    }
    for step, text in texts.items():
        with pytest.raises(ConfigError) as raised:
            private_key_der(SecretStr(text), None, place)
        assert raised.value.where == where
        assert step in raised.value.next_step


@pytest.mark.parametrize("bits", [1024, 2047])
@pytest.mark.parametrize("form", [ser.PrivateFormat.PKCS8, ser.PrivateFormat.TraditionalOpenSSL])
def test_short_keys_are_refused(bits: int, form: ser.PrivateFormat) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    for shape in SHAPES.values():
        assert f"{bits} bits" in refusal(shape(pem(form, key=key)))


@pytest.mark.parametrize(
    "make", [lambda: ec.generate_private_key(ec.SECP256R1()), lambda: dsa.generate_private_key(2048)]
)
@pytest.mark.parametrize("form", [ser.PrivateFormat.PKCS8, ser.PrivateFormat.TraditionalOpenSSL])
def test_keys_of_another_kind_are_refused(make: Callable[[], object], form: ser.PrivateFormat) -> None:
    text = pem(form, key=make())
    for shape in ("headers", "no headers", "escaped newlines"):
        assert "not an RSA key" in refusal(SHAPES[shape](text))


PUBLIC = KEY.public_key().public_bytes(ser.Encoding.PEM, ser.PublicFormat.SubjectPublicKeyInfo).decode()


def test_a_public_key_is_told_apart() -> None:
    for shape in ("headers", "no headers", "escaped newlines"):
        assert "public key" in refusal(SHAPES[shape](PUBLIC))


def test_what_is_no_key_is_refused_without_showing_it() -> None:
    good = BUILT["PKCS#8"]
    damaged = good[:400] + "QUJD" + good[404:]
    for text in ("", "   ", "not a key at all!", "QUJDRA==", good[:300], damaged, good.replace("PRIVATE", "PIRATE")):
        refusal(text)
        refusal(text, PASSPHRASE)
