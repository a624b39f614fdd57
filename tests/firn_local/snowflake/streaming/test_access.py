"""Who may stream: key-pair logins, roles and privileges as the SQL side has them."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from firn_local.admin import new_private_key
from firn_local.servers.seed import public_key
from tests.firn_local.snowflake.streaming.streaming_server import Streaming, login_token

ROW = {"A": 1}


@pytest.fixture(scope="module")
def writer_key(streaming: Streaming) -> str:
    key = new_private_key()
    streaming.sql(
        "CREATE TABLE SECURED (A NUMBER)",
        "CREATE PIPE SECURED AS COPY INTO SECURED FROM (SELECT $1:A FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))",
        "CREATE ROLE WRITER",
        "CREATE ROLE OTHER",
        f"CREATE USER W RSA_PUBLIC_KEY = '{public_key(SecretStr(key))}' DEFAULT_ROLE = WRITER",
        "GRANT ROLE WRITER TO USER W",
        "GRANT USAGE ON DATABASE D TO ROLE WRITER",
        "GRANT USAGE ON SCHEMA D.PUBLIC TO ROLE WRITER",
    )
    return key


def test_a_login_wants_the_key_the_account_and_a_granted_role(streaming: Streaming, writer_key: str) -> None:
    path = "/v2/streaming/hostname"
    refused = streaming.client("W", key=new_private_key())
    assert refused.ask("GET", path, token=refused.login)["code"] == "390144"
    assert refused.ask("POST", "/oauth/token", token="no jwt").status == 401
    expired = login_token("W", None, writer_key, expires_in=-120)
    assert refused.ask("GET", path, token=expired)["code"] == "390144"
    other = streaming.client("W", "OTHER", writer_key)
    assert other.ask("POST", "/oauth/token", token=other.login)["code"] == "390186"
    assert streaming.client("W", "WRITER", writer_key).text("GET", path) == "127.0.0.1"


def test_the_default_pipe_wants_insert_and_a_made_one_operate_too(streaming: Streaming, writer_key: str) -> None:
    client = streaming.client("W", key=writer_key)
    default, made = client.pipe("SECURED-STREAMING"), client.pipe("SECURED")
    assert default.open("c")["code"] == "ERR_TABLE_DOES_NOT_EXIST_NOT_AUTHORIZED"
    streaming.sql("GRANT INSERT ON TABLE SECURED TO ROLE WRITER")
    assert default.open("c").status == 200
    assert made.open("c")["code"] == "ERR_PIPE_DOES_NOT_EXIST_OR_NOT_AUTHORIZED"
    streaming.sql("GRANT OPERATE ON PIPE SECURED TO ROLE WRITER")
    channel = made.channel("c")
    channel.commit(ROW)
    streaming.sql("REVOKE INSERT ON TABLE SECURED FROM ROLE WRITER")
    assert channel.append(ROW).status == 404


def test_a_disabled_user_loses_its_token(streaming: Streaming, writer_key: str) -> None:
    streaming.sql("GRANT INSERT ON TABLE SECURED TO ROLE WRITER")
    client = streaming.client("W", key=writer_key)
    assert client.pipe("SECURED-STREAMING").open("d").status == 200
    streaming.sql("ALTER USER W SET DISABLED = TRUE")
    assert client.pipe("SECURED-STREAMING").open("d")["code"] == "390101"
