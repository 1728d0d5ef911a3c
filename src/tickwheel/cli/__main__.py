"""`python -m tickwheel.cli`: the same as `tickwheel`."""

from tickwheel.cli import app

if __name__ == "__main__":
    app()
