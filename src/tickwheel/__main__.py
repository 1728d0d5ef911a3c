"""`python -m tickwheel`: the same as `tickwheel`."""

from tickwheel.cli import app

if __name__ == "__main__":
    app(prog_name="tickwheel")
