"""A command that does all it can to outlive whoever started it.

usage: hostile_worker.py FOLDER [ROLE]

Its processes write FOLDER/ROLE when they are as hard to end as they will be. FOLDER stands in
the command line of each.
"""

import os
import signal
import sys
import time
from pathlib import Path

folder, role = sys.argv[1], (*sys.argv, "leader")[2]
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)

if role == "leader":
    for name in ("daemon", "busy", "session"):
        if os.fork() == 0:
            if name != "busy":
                os.setsid()
            if name == "daemon" and os.fork() != 0:
                os._exit(0)
            # Nothing of the environment is handed on.
            os.execve(sys.executable, [sys.executable, "-IS", __file__, folder, name], {})

os.closerange(0, 64)
Path(folder, role).write_text(str(os.getpid()))
end = time.monotonic() + 60
while role == "busy" and time.monotonic() < end:
    pass
time.sleep(60)
