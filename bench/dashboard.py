"""How smoothly the dashboard turns its wheels: frames a second in a real browser, with 100,000 timers in them.

    python -m bench.dashboard                 # needs chromium (`make browser`) and the extras `dev` and `server`
    python -m bench.dashboard --timers 10000

A server is started on a free port with an SQLite file of its own, filled, and looked at for ten seconds.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import httpx
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

from contextlib import contextmanager

CHROMIUM = "/usr/bin/chromium"
BATCH = 1_000
SPAN_S = (120, 580)  # when they are due: after the measurement, and within the horizon, so that they are in the wheels
TARGET = 30.0  # frames a second
START_S = 30.0

# Counts the frames the browser really makes, and the longest pause between two of them.
FRAMES = """(seconds) => new Promise((resolve) => {
  let frames = 0, longest = 0, first = null, last = null;
  requestAnimationFrame(function frame() {
    const now = performance.now();
    if (first === null) first = now;
    else { frames += 1; longest = Math.max(longest, now - last); }
    last = now;
    if (now - first < seconds * 1000) requestAnimationFrame(frame);
    else resolve({ frames_per_second: frames / (now - first) * 1000, longest_ms: longest });
  });
})"""


def main() -> None:
    """Measure, and print what was found."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--timers", type=int, default=100_000)
    options.add_argument("--seconds", type=float, default=10.0)
    options.add_argument("--strict", action="store_true", help="end with 1 unless the target is met")
    given = options.parse_args()
    with serving() as url:
        fill(url, given.timers)
        found = watch(url, given.seconds)
    print(json.dumps({"timers": given.timers, "target": TARGET, **found}, indent=2))
    if given.strict and found["frames_per_second"] < TARGET:
        sys.exit(1)


@contextmanager
def serving() -> Iterator[str]:
    """Serve an SQLite file on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "tickwheel", "serve", "--app", "bench.idle_shop:scheduler"),
            *("--port", str(port), "--store", f"sqlite:///{folder}/tasks.db"),
        ]
        with (Path(folder) / "serve.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                await_ready(f"http://127.0.0.1:{port}")
                yield f"http://127.0.0.1:{port}"
            finally:
                process.terminate()
                process.wait(START_S)


def await_ready(url: str) -> None:
    """Wait until the server answers."""
    until = time.monotonic() + START_S
    while True:
        try:
            if httpx.get(f"{url}/readyz").is_success:
                return
        except httpx.TransportError:
            if time.monotonic() > until:
                raise
        time.sleep(0.1)


def fill(url: str, timers: int) -> None:
    """Add tasks that wait in the wheels, and only wait: nothing else takes time."""
    chance = Random(1)
    with httpx.Client(base_url=url, timeout=60) as client:
        for begin in range(0, timers, BATCH):
            tasks = [
                {"handler": "wait", "delay": f"{chance.uniform(*SPAN_S):.3f}s", "id": f"t-{number}"}
                for number in range(begin, min(begin + BATCH, timers))
            ]
            client.post("/v1/tasks:batch", json={"tasks": tasks}).raise_for_status()
            print(f"\r{begin + len(tasks):,} of {timers:,} tasks added", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def watch(url: str, seconds: float) -> dict[str, float]:
    """Open the wheels and count frames."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{url}/#/wheels")
        page.wait_for_selector("[data-hand='0']", state="attached")
        page.wait_for_timeout(2_000)  # the first look is over
        held = sum(level["timers"] for level in httpx.get(f"{url}/v1/wheels").json()["levels"])
        found: dict[str, float] = page.evaluate(FRAMES, seconds)
        browser.close()
    return {"in_the_wheels": held, **{name: round(value, 1) for name, value in found.items()}}


if __name__ == "__main__":
    main()
