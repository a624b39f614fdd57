"""What Spark's and the JVM's errors say, in one line a person can use. Not for errors of our own."""

from __future__ import annotations

_LONGEST = 500


def cause(error: Exception) -> str:
    """The line of the message that tells what happened: the last "Caused by" where there is one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes[-1] if causes else next(iter(lines), type(error).__name__))[:_LONGEST]
