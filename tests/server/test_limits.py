"""Bounds: bodies, nesting, rates; reaching one is an answer, and the server goes on."""

import time
from collections.abc import Iterator

import pytest

from tests.server.served import Served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "tickwheel.toml").write_text("body_bytes_max = 100_000\ndepth_max = 20\nbatch_max = 10\n")
    with Served(folder, "--config", "tickwheel.toml", "--rate", "0") as served:
        yield served
        assert "went wrong" not in (folder / "log").read_text()


def test_a_large_body_is_refused(server: Served) -> None:
    body = {"handler": "echo", "args": {"word": "x" * 200_000}}
    assert server.refused("/v1/tasks", body, 413)[0] == "body-too-large"

    def dripping() -> Iterator[bytes]:
        yield b'{"handler": "echo", "args": {"word": "'
        for _ in range(300):
            yield b"x" * 1000
        yield b'"}}'

    answer = server.client.post("/v1/tasks", content=dripping(), headers={"content-type": "application/json"})
    assert answer.status_code == 413, "without a length it is counted as it comes"
    assert server.get("/v1/stats")["added"] == 0


def test_deep_nesting_is_refused(server: Served) -> None:
    for depth in (20, 200, 20_000):
        nested = b"[" * depth + b"]" * depth
        body = b'{"handler": "echo", "args": {"x": ' + nested + b"}}"
        answer = server.client.post("/v1/tasks", content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (422, "nested-too-deeply")
    server.add(args={"word": "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["}, delay="1h")
    server.add(args={"word": "x", "token": [[[[[[[[1]]]]]]]]}, delay="1h")


def test_a_batch_is_as_long_as_it_may_be(server: Served) -> None:
    many = [{"handler": "echo", "delay": "1h"}] * 11
    assert server.refused("/v1/tasks:batch", {"tasks": many}, 413)[0] == "batch-too-large"
    assert server.post("/v1/tasks:batch", {"tasks": many[:10]})["added"] == 10


def test_a_small_answer_is_sent_at_once(server: Served) -> None:
    took_s = []
    for _ in range(50):
        begun = time.perf_counter()
        server.get("/v1/me")
        took_s.append(time.perf_counter() - begun)
    assert min(took_s[1:]) < 0.03, "each waits for an acknowledgement that is 40 ms late"


def test_one_client_may_ask_so_often(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Served(tmp_path_factory.mktemp("server"), "--rate", "5") as served:
        answers = [served.client.get("/livez") for _ in range(30)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert 10 <= len(answers) - len(refused) < 30
        assert refused[0].json()["type"].endswith("/too-many-requests")
        assert int(refused[0].headers["retry-after"]) >= 1
