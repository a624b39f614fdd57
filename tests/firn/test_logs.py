"""What a line of the log carries, whichever thread or process wrote it."""

from __future__ import annotations

import io
import json
import logging
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from firn.logs import add_to_log_context, configure_logging, log_context, log_fields

log = logging.getLogger("firn.test")


class Terminal(io.StringIO):
    """Standard error of a person."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def restored() -> Iterator[None]:
    """Logging is as before afterwards."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:] = before
    root.setLevel(level)


@pytest.fixture
def stderr(monkeypatch: pytest.MonkeyPatch, restored: None) -> io.StringIO:
    """What a program writes on standard error."""
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    configure_logging()
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_time_level_logger_and_text_in_one_order(stderr: io.StringIO) -> None:
    with log_context(batch="4-1", sink="s", epoch=4):
        log.info("moved %d%%", 100)
    (line,) = lines(stderr)
    assert list(line) == ["timestamp", "level", "sink", "epoch", "batch", "event", "logger"]
    assert (line["level"], line["event"], line["logger"]) == ("info", "moved 100%", "firn.test")
    assert line["timestamp"].endswith("Z")
    assert (line["sink"], line["epoch"], line["batch"]) == ("s", 4, "4-1")


def in_a_context_that_fails() -> None:
    with log_context(batch="4-1"):
        add_to_log_context(topic="t")
        log.info("inside")
        raise KeyError


def test_fields_end_with_their_context_whatever_ends_it(stderr: io.StringIO) -> None:
    with log_context(sink="s"):
        with pytest.raises(KeyError):
            in_a_context_that_fails()
        log.info("outside")
    log.info("over")
    inside, outside, over = lines(stderr)
    assert (inside["sink"], inside["batch"], inside["topic"]) == ("s", "4-1", "t")
    assert outside["sink"] == "s"
    assert not {"batch", "topic"} & outside.keys()
    assert "sink" not in over


def test_fields_belong_to_a_thread_and_can_be_handed_to_another(stderr: io.StringIO) -> None:
    def work(name: str, meet: threading.Barrier) -> None:
        with log_context(sink=name):
            meet.wait(10)
            log.info(name)

    meet = threading.Barrier(2)
    with ThreadPoolExecutor() as pool:
        list(pool.map(work, ["a", "b"], [meet, meet]))
    assert all(line["sink"] == line["event"] for line in lines(stderr))

    with log_context(sink="s", epoch=2), ThreadPoolExecutor() as pool:
        fields = log_fields()

        def elsewhere() -> None:
            with log_context(**fields):
                log.info("elsewhere")

        pool.submit(elsewhere).result()
    assert (lines(stderr)[-1]["sink"], lines(stderr)[-1]["epoch"]) == ("s", 2)


def test_warnings_and_tracebacks_are_lines_like_any_other(stderr: io.StringIO) -> None:
    warnings.warn("old", DeprecationWarning, stacklevel=1)
    try:
        int("first\nsecond")
    except ValueError:
        log.exception("it broke")
    warned, failed = lines(stderr)
    assert (warned["level"], warned["logger"]) == ("warning", "py.warnings")
    assert "old" in warned["event"]
    assert failed["exception"].splitlines()[-1].startswith("ValueError: invalid literal")


@pytest.mark.parametrize(("debug", "told"), [("", ["firn at info"]), ("1", ["firn at debug", "firn at info"])])
def test_debug_lines_are_firns_own_and_asked_for(
    monkeypatch: pytest.MonkeyPatch,
    restored: None,
    debug: str,
    told: list[str],
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("FIRN_DEBUG", debug)
    configure_logging()
    log.debug("firn at debug")
    log.info("firn at info")
    # Clients tell logins and statements below WARNING.
    logging.getLogger("snowflake.connector").info("a client at info")
    assert [line["event"] for line in lines(stream)] == told


def test_a_terminal_gets_text_with_the_same_fields(
    monkeypatch: pytest.MonkeyPatch,
    restored: None,
) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    configure_logging()
    with log_context(sink="orders"):
        log.warning("late")
    assert "late" in stream.getvalue()
    assert "orders" in stream.getvalue()
    with pytest.raises(ValueError, match="Expecting value"):
        lines(stream)
