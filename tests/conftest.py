"""One thread for torch: tests run side by side on few cores, where threads that wait for each other are very slow."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported, and inherited by subprocesses
os.environ.pop("PUFFER_FLAGS", None)  # what a developer's shell says is not tested
