"""The application inside another one, on a scheduler that somebody else started."""

import asyncio

import httpx

from tickwheel import AsyncScheduler, VirtualClock
from tickwheel.server import Config, create_app, running
from tickwheel.server.idempotency import Idempotency


def test_a_scheduler_that_was_started_is_left_running() -> None:
    async def main() -> None:
        scheduler = AsyncScheduler("memory://")
        app = create_app(scheduler, Config(hosts=["shop"]))
        transport = httpx.ASGITransport(app)  # type: ignore[arg-type] # both are ASGI, and spell its types differently
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
            answer = await client.get("/v1/tasks")
            assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (503, "not-started")
            assert (await client.get("/readyz")).json()["reason"] == "it has not started"
            async with scheduler:
                async with running(app):
                    assert (await client.get("/v1/tasks")).status_code == 200
                assert scheduler.is_open, "it was not started here"
                assert (await client.get("/readyz")).json() == {"status": "not ready", "reason": "it is stopping"}
            other = AsyncScheduler("memory://")
            async with running(create_app(other)):
                assert other.is_open
            assert not other.is_open

    asyncio.run(main())


def test_an_app_can_be_run_again() -> None:
    async def main() -> None:
        app = create_app(AsyncScheduler("memory://"))
        transport = httpx.ASGITransport(app)  # type: ignore[arg-type] # as above
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for _ in range(2):
                async with running(app):
                    assert (await client.get("/readyz")).status_code == 200

    asyncio.run(main())


def test_answers_under_keys_are_kept_for_a_day_and_bounded() -> None:
    async def main() -> None:
        clock = VirtualClock()
        app = create_app(AsyncScheduler("memory://", run=False))
        app.state.service.idempotency = Idempotency(2, clock)
        transport = httpx.ASGITransport(app)  # type: ignore[arg-type] # as above
        async with running(app), httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def move(key: str) -> int:
                answer = await client.patch("/v1/tasks/moved", json={"delay": "2h"}, headers={"idempotency-key": key})
                version: int = answer.json()["version"]
                return version

            await client.post("/v1/tasks", json={"handler": "any", "delay": "1h", "id": "moved"})
            first = await move("a")
            clock.advance(86_399)
            assert await move("a") == first
            clock.advance(2)
            second = await move("a")
            assert second != first, "a day has passed"
            await move("b")
            assert await move("a") == second
            await move("c")
            assert await move("a") != second, "it was the oldest of three"

    asyncio.run(main())
