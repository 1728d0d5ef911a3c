"""What stands on packages that need not be installed: the rest does without, and what does not says so."""

import subprocess
import sys

import pytest

EXTRAS = (
    *("httpcore", "prometheus_client", "structlog", "opentelemetry", "litestar", "uvicorn"),
    *("SpiffWorkflow", "apscheduler", "asyncpg"),
)


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_the_library_loads_none_of_them() -> None:
    done = run(
        "import sys, tickwheel, tickwheel.cli, tickwheel.observe, tickwheel.scheduler, tickwheel.webhooks\n"
        "import tickwheel.observe.event_log, tickwheel.observe.masking\n"
        "import tickwheel.external, tickwheel.workflow, tickwheel.workflow.instances\n"
        f"print(sorted(set({EXTRAS!r}) & set(sys.modules)))"
    )
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("module", "package", "words"),
    [
        ("metrics", "prometheus_client", "metrics need prometheus-client, which is not installed"),
        ("logs", "structlog", "structured logs need structlog, which is not installed"),
        ("tracing", "opentelemetry", "traces need opentelemetry-api, which is not installed"),
    ],
)
def test_what_is_missing_is_named(module: str, package: str, words: str) -> None:
    extra = "otel" if module == "tracing" else "server"
    done = run(f"import sys; sys.modules[{package!r}] = None; import tickwheel.observe.{module}")
    assert f"tickwheel.errors.MissingExtra: {words}: pip install 'tickwheel[{extra}]'" in done.stderr


def test_a_server_says_what_it_needs() -> None:
    done = run("import sys; sys.modules['litestar'] = None; import tickwheel.server")
    assert "servers need litestar, which is not installed: pip install 'tickwheel[server]'" in done.stderr


def test_the_command_that_serves_says_what_it_needs() -> None:
    done = run("import sys; sys.modules['structlog'] = None; from tickwheel.cli import app; app(['serve'])")
    words = "the service and its dashboard need structlog, which is not installed: pip install 'tickwheel[server]'"
    assert words in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("module", "package", "words"),
    [
        (
            "workflow.spiff",
            "SpiffWorkflow",
            "BPMN processes need SpiffWorkflow, which is not installed: pip install 'tickwheel[workflow]'",
        ),
        (
            "external.apscheduler",
            "apscheduler",
            "far tasks in APScheduler need APScheduler, which is not installed: pip install 'tickwheel[apscheduler]'",
        ),
    ],
)
def test_engines_and_other_schedulers_are_named(module: str, package: str, words: str) -> None:
    done = run(f"import sys; sys.modules[{package!r}] = None; import tickwheel.{module}")
    assert f"tickwheel.errors.MissingExtra: {words}" in done.stderr


def test_what_sends_webhooks_is_named() -> None:
    done = run("import sys; sys.modules['httpcore'] = None; from tickwheel.webhooks import verify, Webhooks")
    words = "webhooks need httpcore, which is not installed: pip install 'tickwheel[server]'"
    assert f"tickwheel.errors.MissingExtra: {words}" in done.stderr
