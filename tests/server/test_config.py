"""What a server is told: by flags, the environment and a file, in that order; and what is printed of it."""

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from tests.server.served import Served
from tickwheel.errors import InvalidConfig
from tickwheel.server import Config
from tickwheel.server.sources import read_config


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tickwheel.toml"
    file.write_text('port = 1\nbatch_max = 2\nrate_per_s = 3\nhosts = ["a"]\n')
    environment = {"TICKWHEEL_BATCH_MAX": "4", "TICKWHEEL_RATE_PER_S": "5", "TICKWHEEL_ORIGINS": "x, y", "OTHER": "z"}
    config = read_config({"rate_per_s": 6, "host": None}, environment, str(file))
    assert (config.port, config.batch_max, config.rate_per_s) == (1, 4, 6)
    assert (config.hosts, config.origins, config.host) == (["a"], ["x", "y"], "127.0.0.1")
    assert read_config({}, {"TICKWHEEL_CONFIG": str(file)}).port == 1
    assert read_config({}, {}) == Config()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"port": 70_000}, "port is from 0"),
        ({"body_bytes_max": 0}, "body_bytes_max"),
        ({"grace_s": -1}, "grace_s"),
        ({"host": "0.0.0.0"}, "without tokens"),
        ({"tls_cert": "x"}, "tls_key"),
        ({"colour": "red"}, "colour"),
        ({"port": "many"}, "port"),
    ],
)
def test_what_no_server_can_be_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        read_config(fields, {})


def test_a_file_that_cannot_be_read_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text("port = ")
    for name in ("wrong.toml", "nowhere.toml"):
        with pytest.raises(InvalidConfig, match="cannot be read"):
            read_config({}, {}, str(tmp_path / name))


def test_the_config_command_shows_it_without_secrets() -> None:
    environment = {**os.environ, "TICKWHEEL_STORE": "postgres://me:hunter2@db/tasks", "TICKWHEEL_PORT": "9"}
    command = [sys.executable, "-m", "tickwheel", "config"]
    for flags in ([], ["--json"]):
        done = subprocess.run(
            [*command, *flags], env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        assert "hunter2" not in done.stdout
        assert "postgres://me:***@db/tasks" in done.stdout
    assert json.loads(done.stdout)["port"] == 9


def test_what_happens_to_tasks_is_in_the_log(tmp_path: Path) -> None:
    with Served(tmp_path, TICKWHEEL_LOG="json") as served:
        served.add("fail", id="logged")
        served.until("/v1/tasks/logged", status="failed")
        assert served.stop() == 0
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    [failed] = [line for line in lines if line.get("task_id") == "logged"]
    assert (failed["level"], failed["handler"], failed["attempt"]) == ("error", "fail", 1)


def test_it_speaks_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    made.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    made.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with Served(tmp_path, "--tls-cert", "cert.pem", "--tls-key", "key.pem") as served:
        assert served.url.startswith("https://")
        trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        assert httpx.get(f"{served.url}livez", verify=trusted).status_code == 200
        begun = httpx.post(f"{served.url}v1/session", json={"token": "any"}, verify=trusted)
        assert "Secure" in begun.headers["set-cookie"]


def test_a_port_that_is_taken_is_said_to_be(server: Served) -> None:
    port = str(httpx.URL(server.url).port)
    command = [sys.executable, "-m", "tickwheel", "serve", "--store", "memory://", "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "cannot listen" in done.stderr


def test_the_demonstration_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tickwheel", "serve", "--demo", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        demo.stdout.readline()
        url = demo.stdout.readline().rpartition(" ")[2].strip()
        while httpx.get(f"{url}v1/stats").json()["added"] < 5:
            pass
        names = {handler["name"] for handler in httpx.get(f"{url}v1/handlers").json()["handlers"]}
        assert names == {"mail.send", "orders.cancel", "reports.make"}
        demo.terminate()
        assert "stopped" in demo.stdout.read()
    assert demo.returncode == 0
