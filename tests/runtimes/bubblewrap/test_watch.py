"""What is looked at from the host while a box does what it likes."""

import os
import subprocess
import sys
import time

from limpet.runtimes.procfs import children_of

_COME_AND_GO = """
import os
while True:
    for _ in range(8):
        if os.fork() == 0:
            os.fork()
            os._exit(0)
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass
"""


def test_processes_that_end_while_they_are_counted_are_no_fault() -> None:
    with subprocess.Popen([sys.executable, "-c", _COME_AND_GO]) as restless:
        try:
            until = time.monotonic() + 1
            seen = set()
            while time.monotonic() < until:
                seen |= children_of(restless.pid)
        finally:
            restless.kill()

    assert len(seen) > 1


def test_the_children_of_every_thread_are_found_and_those_below_them() -> None:
    program = "import subprocess, threading; threading.Thread(target=subprocess.run, args=(['sh', '-c', 'sleep 60 & wait'],)).start()"
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as starter:
        try:
            until = time.monotonic() + 5
            while len(found := children_of(starter.pid)) < 2 and time.monotonic() < until:
                time.sleep(0.01)
        finally:
            os.killpg(starter.pid, 9)

    assert len(found) == 2
