"""The value of `sasl.jaas.config`, read and written as Kafka's Java clients do. Not for the mechanisms themselves.

Three options of an OAUTHBEARER login have properties of their own since Kafka 4.1 (KIP-1139), which count as well.
Grammar: `JaasConfig` of kafka-clients, which reads with Java's `StreamTokenizer`: one login module, a control flag,
`name=value` pairs, a semicolon. Quoted values may hold escapes; an unquoted value must not begin with a digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from firn.kafka.property_table import KERBEROS

_PACKAGE = "org.apache.kafka.common.security"
_MODULES = {
    f"{_PACKAGE}.plain.PlainLoginModule": ("PLAIN",),
    f"{_PACKAGE}.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
}
_KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
_OPTIONS = {
    "clientId": "sasl.oauthbearer.client.credentials.client.id",
    "clientSecret": "sasl.oauthbearer.client.credentials.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_EXTENSION = "extension_"

_TOKEN = re.compile(
    r"""(?P<skip>[\x00-\x20]+|/\*.*?\*/|/[^\r\n]*)
    |"(?P<double>(?:\\[^\r\n]|[^"\\\r\n])*)"
    |'(?P<single>(?:\\[^\r\n]|[^'\\\r\n])*)'
    |(?P<word>[A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9_$.\-\u00a0-\U0010ffff]*)
    |(?P<sign>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)


class JaasError(ValueError):
    """The text is no login that the client can use. The message holds no value."""


@dataclass(frozen=True)
class Login:
    """One login module's mechanisms and options."""

    mechanisms: tuple[str, ...]
    options: Mapping[str, str] = field(repr=False)

    @property
    def extensions(self) -> dict[str, str]:
        """SASL extensions of an OAUTHBEARER login, for instance logicalCluster."""
        prefixed = {name: value for name, value in self.options.items() if name.startswith(_EXTENSION)}
        return {name.removeprefix(_EXTENSION): value for name, value in prefixed.items()}


def login_of(text: str, properties: Mapping[str, str | None] | None = None) -> Login:
    """The login in `text`, with what other properties add. Raises JaasError where it is malformed or cannot be used.

    properties: the client's properties by Java name; None for a value that is not known yet.
    """
    module, options = parse(text)
    if module == _KERBEROS:
        raise JaasError(KERBEROS)
    if module not in _MODULES:
        raise JaasError(f"The login module is a Java class that is not known here. Known are {', '.join(_MODULES)}.")
    if _MODULES[module] == ("OAUTHBEARER",):
        options = _completed(options, properties or {})
    login = Login(_MODULES[module], options)
    _check_options(login)
    return login


def parse(text: str) -> tuple[str, dict[str, str]]:
    """Class name and options of the one login module in `text`. Raises JaasError."""
    tokens = list(_tokens(text))
    if len(tokens) < 3 or tokens[0][0] == "sign":
        raise JaasError("It has to be: <login module class> required <name>=<value> ... ;")
    if tokens[1][1].lower() not in _FLAGS:
        raise JaasError(f"After the login module one of {', '.join(_FLAGS)} is expected.")
    if ("sign", ";") not in tokens:
        raise JaasError("It does not end with a semicolon.")
    end = tokens.index(("sign", ";"))
    if end != len(tokens) - 1:
        raise JaasError("It names more than one login module.")
    return tokens[0][1], _options(tokens[2:end])


def render(mechanism: str, options: Mapping[str, str]) -> str:
    """The text for a login by `mechanism`, every value quoted."""
    module = next(name for name, mechanisms in _MODULES.items() if mechanism in mechanisms)
    return " ".join([module, "required", *(f"{name}={quoted(value)}" for name, value in options.items())]) + ";"


def quoted(value: str) -> str:
    """A value in double quotes; control characters, which would end it, as octal escapes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f]", lambda found: f"\\{ord(found[0]):03o}", escaped) + '"'


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise JaasError(f"Character {position + 1} is unexpected; values belong in double quotes.")
        position, kind = found.end(), str(found.lastgroup)
        if kind in ("double", "single"):
            yield "value", _ESCAPE.sub(_unescaped, found[kind])
        elif kind != "skip":
            yield kind, found[kind]


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _SIMPLE_ESCAPES.get(code, code)


def _options(tokens: list[tuple[str, str]]) -> dict[str, str]:
    options: dict[str, str] = {}
    for start in range(0, len(tokens), 3):
        name, sign, value = ([*tokens[start : start + 3], ("", ""), ("", "")])[:3]
        if name[0] == "sign" or sign != ("sign", "=") or value[0] not in ("word", "value"):
            raise JaasError(f"Option {start // 3 + 1} is not <name>=<value>; values belong in double quotes.")
        options[name[1]] = value[1]
    return options


def _completed(options: Mapping[str, str], properties: Mapping[str, str | None]) -> dict[str, str]:
    """The options with those that have properties of their own. Raises JaasError where the two differ."""
    found = dict(options)
    for option, name in _OPTIONS.items():
        value = properties.get(name)
        if value is not None and found.setdefault(option, value) != value:
            raise JaasError(f"{option} and {name} differ: give one of them.")
        if name in properties:
            found.setdefault(option, "")
    return found


def _check_options(login: Login) -> None:
    if login.mechanisms == ("OAUTHBEARER",):
        required = ("clientId", "clientSecret")
        strange = [n for n in login.options if n not in _OPTIONS and not n.startswith(_EXTENSION)]
        if strange:
            raise JaasError(
                f"OAUTHBEARER takes {', '.join(_OPTIONS)} and {_EXTENSION}*, not {', '.join(strange)}. The CA of the "
                "token endpoint belongs in the system's certificates."
            )
    else:
        required = ("username", "password")
        if login.options.get("tokenauth", "").lower() == "true":
            raise JaasError(
                "tokenauth: librdkafka cannot log in with a delegation token. Give user and password of a SCRAM user."
            )
    missing = [name for name in required if name not in login.options]
    if missing:
        raise JaasError(f"The login lacks {' and '.join(missing)}.")
