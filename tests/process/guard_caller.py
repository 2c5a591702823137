"""A caller of the guard in a process of its own, to be killed or to lose its guard.

usage: guard_caller.py FOLDER GRACE [INSTANT]

Runs the hostile worker and writes two lines of JSON: the pids, and how it ended. INSTANT names
the moment between fork and exec at which it is killed.
"""

import contextlib
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from waybill.base import guard, launch, watch

folder, grace, instant = sys.argv[1], float(sys.argv[2]), (*sys.argv, "")[3]
me = os.getpid()


def die() -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(me, signal.SIGKILL)


if instant == "after the fork of the guard":
    fork = launch.fork
    guard.launch.fork = lambda child: (fork(child), die())[0]
elif instant == "before the guard leaves":
    leave = watch.Watch._leave
    watch.Watch._leave = lambda self: (die(), leave(self))[1]
elif instant == "before the fork of the command":
    begin = watch.Watch._launch
    watch.Watch._launch = lambda self, *given: (die(), begin(self, *given))[1]
elif instant == "before the exec of the command":
    chdir = os.chdir
    os.chdir = lambda path: (die(), chdir(path))[1]
elif instant == "the guard, before the exec of the command":
    chdir = os.chdir
    os.chdir = lambda path: (os.kill(os.getppid(), signal.SIGKILL), chdir(path))[1]

null = os.open(os.devnull, os.O_RDWR)
try:
    guarded = guard.start(
        [sys.executable, "-IS", str(Path(__file__).with_name("hostile_worker.py")), folder],
        cwd=folder,
        env={"PATH": os.defpath},
        stdin=null,
        stdout=null,
        stderr=null,
        grace=grace,
    )
except OSError as failure:
    print(json.dumps({"errno": failure.errno}), flush=True)
else:
    print(json.dumps({"guard": guarded.guard_pid, "pid": guarded.pid}), flush=True)
    print(json.dumps(asdict(guarded.wait())), flush=True)
