"""Signals to processes that may be gone at any moment, and whether they are."""

from __future__ import annotations

import signal

import psutil


def send(member: psutil.Process, number: signal.Signals) -> None:
    """Send a signal, unless the process has gone by itself."""
    try:
        member.send_signal(number)
    except psutil.NoSuchProcess:
        return


def alive(member: psutil.Process) -> bool:
    """Whether it is there and no zombie that nobody has waited for yet."""
    try:
        return member.is_running() and member.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
