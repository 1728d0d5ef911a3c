"""tickwheel inside a program of one's own: mounted into a Starlette application, on the scheduler that this uses.

python examples/mounted.py              # asks itself, and ends
uvicorn mounted:app --app-dir examples  # serves; tasks are at http://127.0.0.1:8000/tasks/v1/tasks
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from tickwheel import AsyncScheduler
from tickwheel.server import Config, create_app, running

scheduler = AsyncScheduler("memory://")


@scheduler.task("orders.cancel")
async def cancel_order(order_id: int) -> str:
    """Cancel an order that was not paid."""
    return f"order {order_id} is cancelled"


async def order(request: Request) -> JSONResponse:
    """Take an order, which is cancelled in half an hour unless it is paid."""
    number = request.path_params["number"]
    task = await scheduler.add("orders.cancel", {"order_id": number}, delay="30m", id=f"order-{number}")
    return JSONResponse({"order": number, "cancelled by": task.id})


# Without tokens it answers to names of this machine alone; here the program around it decides who comes in.
tasks = create_app(scheduler, Config(hosts=["*"]))


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    """Run what is mounted: Starlette does not do that by itself."""
    async with running(tasks):
        yield


app = Starlette(
    routes=[
        Route("/orders/{number:int}", order, methods=["POST"]),
        Mount("/tasks", tasks),  # type: ignore[arg-type] # both are ASGI, and spell its types differently
    ],
    lifespan=lifespan,
)


async def main() -> None:
    """Place an order, and look at its task."""
    async with lifespan(app), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
        print((await client.post("/orders/7")).json())
        task = (await client.get("/tasks/v1/tasks/order-7")).json()
        print(task["id"], task["status"], task["why"])
        print((await client.post("/tasks/v1/tasks/order-7:run")).json()["due"])


if __name__ == "__main__":
    asyncio.run(main())
