"""What is shipped for Prometheus and Grafana: rules that fire when they should, and figures that there are."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.scheduler.worlds import World
from tickwheel.observe.metrics import Metrics
from tickwheel.scheduler import AsyncScheduler

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
ALERTS = REPOSITORY / "deploy/prometheus/alerts.yml"
ALERTS_TEST = HERE / "alerts.test.yml"
DASHBOARD = REPOSITORY / "deploy/grafana/tickwheel.json"
PAGE = REPOSITORY / "docs/metrics.md"

RATE_INTERVAL = "5m"  # what Grafana would put in its place


def promtool(*arguments: str | Path, folder: Path = REPOSITORY) -> str:
    """Run promtool; return what it says."""
    program = Path(sys.executable).with_name("promtool")
    if not program.exists():
        pytest.fail("promtool is not here: `make .venv/bin/promtool` fetches it, or says what to do")
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def exported() -> set[str]:
    """Return the name of every series that a scheduler exports."""
    world = World()

    async def story(scheduler: AsyncScheduler) -> bytes:
        metrics = Metrics(scheduler)
        for kind, handler in (("ok", "note"), ("bad", "fail"), ("long", "work")):
            args = {"what": kind, "seconds": 100.0} if handler == "work" else {"what": kind}
            await scheduler.add(handler, args, id=kind)
        await asyncio.sleep(5)
        await scheduler.cancel("long")
        await asyncio.sleep(60)
        return metrics.render()

    text = world.play(story).decode()
    families = list(text_string_to_metric_families(text))
    names = {sample.name for family in families for sample in family.samples}
    # Of what this story does not do, a family has no series yet, but it is announced.
    names |= {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    return {name for name in names if not name.endswith("_created")}


def expressions() -> list[str]:
    """Return what the dashboard asks for, as Prometheus gets it."""
    dashboard: dict[str, Any] = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return [expression.replace("$__rate_interval", RATE_INTERVAL) for expression in asked]


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\btickwheel_\w+", text))


def test_the_rules_are_rules() -> None:
    assert "11 rules found" in promtool("check", "rules", ALERTS)


def test_the_rules_fire_when_they_should_and_only_then() -> None:
    promtool("test", "rules", ALERTS_TEST.name, folder=HERE)
    alerts = set(re.findall(r"alert: (\w+)", ALERTS.read_text()))
    good_day, _, bad_days = ALERTS_TEST.read_text().partition("name: a bad day")
    for day in (good_day, bad_days):
        assert alerts - set(re.findall(r"Tickwheel\w+", day)) == set(), "not tested"


def test_what_the_dashboard_asks_can_be_asked(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(expressions())]
    path = tmp_path / "dashboard.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))  # JSON is YAML
    assert f"{len(rules)} rules found" in promtool("check", "rules", path)


@pytest.mark.parametrize("path", [ALERTS, DASHBOARD, ALERTS_TEST], ids=lambda path: path.name)
def test_every_figure_that_is_used_is_exported(path: Path, exported: set[str]) -> None:
    used = names_in(path.read_text())
    assert used
    assert used - exported == set()


def test_the_dashboard_asks_for_nothing_but_our_figures() -> None:
    for expression in expressions():
        bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\bby \([^)]*\)", "", expression)
        words = set(re.findall(r"[a-zA-Z_]\w*", bare))
        functions = {"sum", "max", "rate", "increase", "histogram_quantile", "or", "vector"}
        assert words - functions == names_in(expression), expression


def test_every_figure_is_on_the_page_that_explains_them(exported: set[str]) -> None:
    explained = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE))
    assert explained == {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported}


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24, "a row has 24 columns"
        taken |= cells
