"""`python -m pufferlib` is the command `puffer`."""

import sys


def main() -> int:
    """Runs the command, and returns its exit code; Ctrl-C may come while it is still being imported."""
    try:
        from pufferlib.cli import main as run
    except KeyboardInterrupt:
        return 130  # as `run`
    return run()


if __name__ == "__main__":
    sys.exit(main())
