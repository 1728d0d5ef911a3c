"""Who may come in, and what they may do: tokens, roles, cookies, and pages of other origins."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.served import Served
from tickwheel.server.tokens import ROLES, Role, Tokens, make_token

TASK = {"handler": "echo", "delay": "1h"}


@pytest.fixture(scope="module")
def tokens() -> dict[Role, tuple[str, str]]:
    return {role: make_token(f"{role}er", role) for role in ROLES}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, tokens: dict[Role, tuple[str, str]]) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "tokens").write_text("# who may come in\n" + "\n".join(line for _, line in tokens.values()) + "\n")
    with Served(folder, "--token-file", "tokens", "--host", "0.0.0.0", "--rate", "0") as served:
        served.client.base_url = httpx.URL(served.url.replace("0.0.0.0", "127.0.0.1"))
        yield served
        for token, _ in tokens.values():
            assert token not in (folder / "log").read_text()


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_nobody_comes_in_without_a_token(guarded: Served, tokens: dict[Role, tuple[str, str]]) -> None:
    for path in ("/v1/tasks", "/v1/stats", "/v1/events", "/metrics", "/v1/cluster"):
        answer = guarded.client.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), path
    for wrong in ("tw_wrong", tokens["admin"][0][:-1], tokens["admin"][1].split()[2], "\u00e9"):
        headers = {b"authorization": f"Bearer {wrong}".encode()}
        assert guarded.client.get("/v1/tasks", headers=headers).status_code == 401
    for path in ("/livez", "/readyz", "/", "/openapi.json", "/v1/me"):
        assert guarded.client.get(path).status_code == 200
    assert guarded.get("/v1/me") == {"role": None, "auth": True}


def test_each_role_may_do_what_those_below_it_may(guarded: Served, tokens: dict[Role, tuple[str, str]]) -> None:
    bulk = {"action": "delete", "filter": {"tag": "nothing"}, "dry_run": True}
    allowed: dict[Role, list[int]] = {"read": [200, 403, 403], "write": [200, 201, 403], "admin": [200, 201, 200]}
    for role, statuses in allowed.items():
        headers = bearer(tokens[role][0])
        answers = [
            guarded.client.get("/v1/tasks", headers=headers),
            guarded.client.post("/v1/tasks", json=TASK, headers=headers),
            guarded.client.post("/v1/operations", json=bulk, headers=headers),
        ]
        assert [answer.status_code for answer in answers] == statuses, role
        assert guarded.client.get("/v1/me", headers=headers).json() == {"role": role, "auth": True}
        assert guarded.client.post("/v1/cron:preview", json={"cron": "@daily"}, headers=headers).status_code == 200


def test_keys_belong_to_who_brought_them(guarded: Served, tokens: dict[Role, tuple[str, str]]) -> None:
    made = {
        guarded.client.post(
            "/v1/tasks", json=TASK, headers={**bearer(tokens[role][0]), "idempotency-key": "same"}
        ).json()["task"]["id"]
        for role in ("write", "admin")
    }
    assert len(made) == 2


def test_a_browser_has_a_cookie_instead(guarded: Served, tokens: dict[Role, tuple[str, str]]) -> None:
    assert guarded.client.post("/v1/session", json={"token": "tw_wrong"}).status_code == 401
    begun = guarded.client.post("/v1/session", json={"token": tokens["write"][0]})
    assert begun.json() == {"role": "write", "auth": True}
    cookie = begun.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert tokens["write"][0] not in cookie
    assert guarded.client.get("/v1/tasks").status_code == 200
    assert guarded.client.post("/v1/tasks", json=TASK).status_code == 201
    stolen = {"cookie": f"tickwheel_session={guarded.client.cookies['tickwheel_session']}"}
    assert guarded.client.delete("/v1/session").status_code == 204
    assert guarded.client.get("/v1/tasks", headers=stolen).status_code == 401, "it is forgotten here, too"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),
        ({"sec-fetch-site": "same-origin"}, 201),
        ({"sec-fetch-site": "none"}, 201),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1"}, 403),
    ],
)
def test_pages_of_other_origins_do_not_write(server: Served, headers: dict[str, str], status: int) -> None:
    assert server.client.post("/v1/tasks", json=TASK, headers=headers).status_code == status
    assert server.client.get("/v1/tasks", headers=headers).status_code == 200


def test_the_servers_own_page_writes(server: Served) -> None:
    own = {"origin": server.url.rstrip("/"), "sec-fetch-site": "same-origin"}
    assert server.client.post("/v1/tasks", json=TASK, headers=own).status_code == 201


def test_without_tokens_it_answers_to_its_own_name_alone(server: Served) -> None:
    for host, status in (("evil.example", 403), ("localhost:80", 200), ("[::1]", 200), ("", 403), ("[", 403)):
        assert server.client.get("/v1/tasks", headers={"host": host}).status_code == status, host


def refusal(folder: Path, *flags: str) -> str:
    command = [sys.executable, "-m", "tickwheel", "serve", *flags]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1, done.stdout
    return done.stderr


def test_without_tokens_it_listens_on_this_machine_alone(tmp_path: Path) -> None:
    assert "without tokens it listens on this machine alone" in refusal(tmp_path, "--host", "0.0.0.0")
    assert "cannot be read" in refusal(tmp_path, "--token-file", "nowhere")
    (tmp_path / "tokens").write_text("me boss abc\n")
    assert "line 1" in refusal(tmp_path, "--token-file", "tokens")
    (tmp_path / "tokens").write_text("# nobody\n")
    assert "has 0 tokens" in refusal(tmp_path, "--token-file", "tokens")


def test_the_token_command_prints_a_line_for_the_file(tmp_path: Path) -> None:
    def run(*words: str) -> Any:
        command = [sys.executable, "-m", "tickwheel", "token", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    remark, line = run("ci", "admin").stdout.splitlines()
    (tmp_path / "tokens").write_text(f"{line}\n")
    holder = Tokens.read(tmp_path / "tokens").holder_of(remark.rpartition(" ")[2])
    assert holder is not None
    assert (holder.name, holder.role) == ("ci", "admin")
    assert run("ci", "boss").returncode == 1
    assert run("two words").returncode == 1
