"""A command that has a new pid, and a new session, a thousand times a second.

usage: hopping_worker.py FOLDER
"""

import os
import signal
import sys
import time
from pathlib import Path

signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + 20
Path(sys.argv[1], "hopping").touch()
while time.monotonic() < end:
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
