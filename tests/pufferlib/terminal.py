"""Scripts on a terminal of their own."""

import os
import pty
import select
import subprocess
import sys
import time

SHOW_CURSOR = "\x1b[?25h"


def run_on_terminal(script):
    """Runs a script on a terminal of its own; returns its exit code and all that it wrote."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    written = b""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and select.select([ours], [], [], 600)[0]:
        try:
            chunk = os.read(ours, 65_536)
        except OSError:  # Linux's way of saying that the other end is closed; macOS reads nothing
            break
        if not chunk:
            break
        written += chunk
    os.close(ours)
    return child.wait(timeout=600), written.decode()
