"""A worker ends with the daemon that forked it, as Spark could not end it any more."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil

DAEMON = """
import os, time
from spark_jobs.sink.task.orphans import end_forks_with_this_process

end_forks_with_this_process()
if (worker := os.fork()) == 0:
    time.sleep(60)
print(worker, flush=True)
time.sleep(60)
"""


def test_a_worker_ends_with_its_daemon_and_lives_as_long_as_it() -> None:
    with subprocess.Popen([sys.executable, "-c", DAEMON], stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        worker = psutil.Process(int(daemon.stdout.readline()))
        try:
            time.sleep(1.5)  # it has looked whose child it is
            assert worker.is_running()
            daemon.kill()
            _, alive = psutil.wait_procs([worker], timeout=20)
            assert not alive
        finally:
            if worker.is_running():
                worker.kill()
