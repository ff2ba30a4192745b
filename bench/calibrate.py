"""How fast is one core of this machine right now? `python bench/calibrate.py` prints one number.

Machines are shared, and the same one may run at half its speed an hour later. The number, in million visits per second
of bench/calibrate.c, stands beside every result, so that figures taken at different times can be compared by their
ratio to it.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("calibrate.c")


def calibration() -> float:
    """Compiles and runs the yardstick (about two seconds); million visits per second, best of five.

    NaN, with a note, where there is no C compiler.
    """
    if shutil.which("cc") is None:
        print("no calibration: it needs a C compiler named cc", file=sys.stderr)
        return math.nan
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "calibrate"
        subprocess.run(["cc", "-O2", "-o", program, SOURCE, "-lm"], check=True)
        output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return float(re.search(r"calibration (\S+) M visits/s", output)[1])


if __name__ == "__main__":
    print(f"{calibration():.2f} M visits/s")
