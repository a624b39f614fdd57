"""Ports of the stack: chosen once, remembered, never shared, and a clear word when one is taken."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firn.errors import TerminalError
from firn_local.home import LOOPBACK, Home
from firn_local.stack import loopback_ports
from firn_local.stack.lifecycle import SERVERS
from firn_local.stack.loopback_ports import with_ports


def test_ports_are_remembered(tmp_path: Path) -> None:
    chosen = with_ports(Home.load(tmp_path), SERVERS)
    assert set(chosen.ports) == {
        "secrets-manager",
        "kafka",
        "kafka-controller",
        "kafka-mutual-tls",
        "schema-registry",
        "snowflake",
        "snowflake-streaming",
        "prefect",
    }
    assert Home.load(tmp_path).ports == chosen.ports
    assert with_ports(Home.load(tmp_path), SERVERS).ports == chosen.ports


def test_a_server_that_is_new_in_this_version_gets_a_port_beside_the_remembered_ones(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text(json.dumps({"ports": {"kafka": 23456}}))
    assert with_ports(Home.load(tmp_path), SERVERS).ports["kafka"] == 23456
    assert len(set(with_ports(Home.load(tmp_path), SERVERS).ports.values())) == 8


def test_two_homes_do_not_share_a_port_while_one_of_them_listens() -> None:
    (first,) = loopback_ports.choose(1)
    with socket.create_server((LOOPBACK, first)):
        assert not loopback_ports.is_free(first)
        assert first not in loopback_ports.choose(200)
    assert loopback_ports.is_free(first)


def test_ports_stay_clear_of_those_the_system_lends_to_outgoing_connections() -> None:
    assert all(port < 32_768 for port in loopback_ports.choose(50))


def test_a_port_in_use_is_an_error_that_names_server_port_and_way_out(
    tmp_path: Path, firn_in: Callable[..., Any]
) -> None:
    taken = with_ports(Home.load(tmp_path), SERVERS).ports["schema-registry"]
    with socket.create_server((LOOPBACK, taken)):
        done = firn_in(tmp_path, "up", check=False)
    assert done.returncode == 3
    assert f"Port {taken} of schema-registry is in use" in done.stderr
    assert "firn up --new-ports" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "stack.env").exists()
    assert not (tmp_path / "run").exists()


def test_damaged_ports_are_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text("{")
    with pytest.raises(TerminalError, match="cannot be read") as error:
        Home.load(tmp_path)
    assert "stack.json" in error.value.where
