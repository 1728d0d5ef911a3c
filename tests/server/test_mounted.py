"""The application inside another one, on a scheduler that somebody else started."""

import asyncio

import httpx

from tickwheel import AsyncScheduler
from tickwheel.server import Config, create_app, running


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
