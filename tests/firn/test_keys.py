"""Private keys arrive in every text form that secrets and connector files hold."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import serialization as ser
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from pydantic import SecretStr

from firn.errors import ConfigError
from firn.keys import private_key_der

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
DER = KEY.private_bytes(ser.Encoding.DER, ser.PrivateFormat.PKCS8, ser.NoEncryption())


def pem(form: ser.PrivateFormat, passphrase: str | None = None) -> str:
    encryption = ser.BestAvailableEncryption(passphrase.encode()) if passphrase else ser.NoEncryption()
    return KEY.private_bytes(ser.Encoding.PEM, form, encryption).decode()


def bare(text: str) -> str:
    return "".join(line for line in text.splitlines() if not line.startswith("-----"))


@pytest.mark.parametrize("form", [ser.PrivateFormat.PKCS8, ser.PrivateFormat.TraditionalOpenSSL])
@pytest.mark.parametrize("shape", [str, bare, lambda t: t.replace("\n", "\\n"), lambda t: t.replace("\n", " ")])
def test_every_text_form_gives_the_same_key(form, shape) -> None:
    assert private_key_der(SecretStr(shape(pem(form)))) == DER


@pytest.mark.parametrize("shape", [str, bare, lambda t: t.replace("\n", "\\n")])
def test_an_encrypted_key_opens_with_its_passphrase(shape) -> None:
    text = shape(pem(ser.PrivateFormat.PKCS8, "winter"))
    assert private_key_der(SecretStr(text), SecretStr("winter")) == DER
    with pytest.raises(ConfigError, match="no passphrase"):
        private_key_der(SecretStr(text))
    with pytest.raises(ConfigError, match="passphrase does not fit"):
        private_key_der(SecretStr(text), SecretStr("summer"))


def test_an_old_encrypted_pkcs1_key_opens() -> None:
    text = pem(ser.PrivateFormat.TraditionalOpenSSL, "winter")
    assert private_key_der(SecretStr(text), SecretStr("winter")) == DER


def test_a_passphrase_beside_an_open_key_is_ignored() -> None:
    assert private_key_der(SecretStr(pem(ser.PrivateFormat.PKCS8)), SecretStr("winter")) == DER


def test_what_is_no_key_is_refused_without_showing_it() -> None:
    for text in ("not a key at all!", "QUJDRA==", "-----BEGIN PRIVATE KEY-----\nQUJD\n-----END PRIVATE KEY-----"):
        with pytest.raises(ConfigError) as raised:
            private_key_der(SecretStr(text))
        assert text not in str(raised.value)


def test_short_and_foreign_keys_are_refused() -> None:
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    curve = ec.generate_private_key(ec.SECP256R1())
    for key, said in ((short, "1024 bits"), (curve, "not an RSA key")):
        text = key.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, ser.NoEncryption()).decode()
        with pytest.raises(ConfigError, match=said):
            private_key_der(SecretStr(text))
