"""Faults for tests: what the streaming service answers instead, how often, and how often it did.

    server.faults.add(throttled(times=2))            # 429 to the next two appends
    server.faults.add(lost_answer())                 # the rows are taken, the connection is cut
    server.faults.reject(Rejection("$.RECORD_METADATA.offset", ("7",)))
    assert server.faults.fired["append"] == 3

An `api` is one of APIS, `append` (rows and filebuffer: the SDK chooses by size) or `*`. A fault counts only requests
that it is for. Over HTTP: `admin`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from firn_local.snowflake.streaming import protocol_errors
from firn_local.snowflake.streaming.row_loader import Rejection

APIS = (
    "hostname", "token", "pipe-info", "open", "rows", "filebuffer", "upload", "status", "drop", "telemetry",
)  # fmt: skip
_GROUPS = {"append": {"rows", "filebuffer"}, "*": set(APIS)}
FOREVER = 1_000_000_000


@dataclass(frozen=True)
class Fault:
    """What happens to the next `times` requests, once `after` others have passed.

    `status` with `code`, `message` and `headers` is the answer; `cut` cuts the connection instead; `apply` does what
    was asked first, so that only the answer is lost; `delay` (seconds) goes before everything. `channel`, `pipe`: only
    requests about the one of this name.
    """

    api: str = "append"
    times: int = 1
    after: int = 0
    status: int | None = None
    code: str = "INJECTED"
    message: str = "Injected fault"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    apply: bool = False
    cut: bool = False
    channel: str | None = None
    pipe: str | None = None

    def __post_init__(self) -> None:
        """Refuse a name that no request has."""
        if self.api not in {*APIS, *_GROUPS}:
            raise ValueError(f"api is one of {', '.join([*APIS, *_GROUPS])}, not {self.api!r}")

    @property
    def answers(self) -> bool:
        """Whether it takes the place of the answer."""
        return self.cut or self.status is not None

    def is_for(self, api: str, channel: str | None, pipe: str | None) -> bool:
        """Whether it is for such a request."""
        named = _meets(self.channel, channel) and _meets(self.pipe, pipe)
        return named and api in _GROUPS.get(self.api, {self.api})


def _meets(wanted: str | None, name: str | None) -> bool:
    return wanted is None or (name is not None and name.lower() == wanted.lower())


def throttled(times: int = 1, api: str = "append") -> Fault:
    """429: the SDK repeats the request."""
    return Fault(api, times, status=429, code="TOO_MANY_REQUESTS", message="Too many requests")


def unavailable(times: int = 1, api: str = "append", status: int = 503) -> Fault:
    """A status of 500 and above: the SDK repeats the request."""
    return Fault(api, times, status=status, code="SERVICE_UNAVAILABLE", message="Service unavailable")


def cut_connection(times: int = 1, api: str = "append") -> Fault:
    """The connection ends before anything was done."""
    return Fault(api, times, cut=True)


def lost_answer(times: int = 1, api: str = "append") -> Fault:
    """The request is done, and the connection ends without an answer: the SDK repeats what was done."""
    return Fault(api, times, cut=True, apply=True)


def stale_token(times: int = 1) -> Fault:
    """What a fenced writer is told: the SDK gives its channel up."""
    return Fault("append", times, status=400, code=protocol_errors.STALE, message="Please reopen the channel.")


def slow(seconds: float, times: int = 1, api: str = "append") -> Fault:
    """The answer comes late."""
    return Fault(api, times, delay=seconds, apply=True)


class Faults:
    """The faults to come. `fired` counts what happened, `requests` what was asked, both by api."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._rejections: list[Rejection] = []
        self.fired: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()

    def add(self, *faults: Fault) -> None:
        """Let these happen, after those that were added before."""
        with self._lock:
            self._faults += faults

    def reject(self, *rejections: Rejection) -> None:
        """Refuse such rows from now on."""
        with self._lock:
            self._rejections += rejections

    def clear(self, pipe: str | None = None) -> None:
        """No more faults and rejections of this pipe, or of any; the counts stay."""
        with self._lock:
            self._faults = [each for each in self._faults if pipe and not _meets(pipe, each.pipe)]
            self._rejections = [each for each in self._rejections if pipe and not _meets(pipe, each.pipe)]

    def next(self, api: str, channel: str | None, pipe: str | None = None) -> Fault | None:
        """What is to happen to a request that has come."""
        with self._lock:
            self.requests[api] += 1
            for at, fault in enumerate(self._faults):
                if not fault.is_for(api, channel, pipe):
                    continue
                if fault.after:
                    self._faults[at] = replace(fault, after=fault.after - 1)
                    continue
                self._faults[at : at + 1] = [replace(fault, times=fault.times - 1)] if fault.times > 1 else []
                self.fired[api] += 1
                for group in _GROUPS.items():
                    if fault.api == group[0]:
                        self.fired[group[0]] += 1
                return fault
        return None

    def rejections(self, pipe: str) -> Sequence[Rejection]:
        """The rows of this pipe that are to be refused."""
        with self._lock:
            return tuple(each for each in self._rejections if _meets(each.pipe, pipe))
