"""tickwheel inside a FastAPI application: orders add tasks, and tasks can be looked at beside them.

    python examples/fastapi_shop.py                     # asks itself, and ends
    uvicorn fastapi_shop:app --app-dir examples         # serves; the dashboard is at http://127.0.0.1:8000/tasks/

It needs `pip install 'tickwheel[server]' fastapi`. The scheduler lives as long as the application does, and runs its
tasks on the same event loop.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI, HTTPException

from tickwheel import AsyncScheduler
from tickwheel.server import Config, create_app, running

# In memory, as the orders are. In earnest both are in a database: see orders_postgres.py and orders_sqlite.py.
scheduler = AsyncScheduler("memory://")
orders: dict[int, str] = {}


@scheduler.task("orders.cancel", retries=10)
async def cancel_order(order: int) -> str:
    """Cancel an order if it is still unpaid. At least once: a second run finds nothing to do."""
    if orders[order] == "unpaid":
        orders[order] = "cancelled"
    return f"order {order} is {orders[order]}"


# Without tokens it answers to names of this machine alone; here the application around it decides who comes in.
tasks = create_app(scheduler, Config(hosts=["*"]))


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Run what is mounted, and with it the scheduler: frameworks do not run the lifespan of what they mount."""
    async with running(tasks):
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/tasks", tasks)  # type: ignore[arg-type] # both are ASGI, and spell its types differently


@app.post("/orders/{order}", status_code=201)
async def place(order: int) -> dict[str, str]:
    """Take an order; when this answers, the task that cancels it is in the store. Asked twice, there is one."""
    orders.setdefault(order, "unpaid")
    task = await scheduler.add("orders.cancel", {"order": order}, delay="30m", id=f"order-{order}", on_conflict="keep")
    return {"task": task.id, "status": task.status}


@app.post("/orders/{order}/payment")
async def pay(order: int) -> dict[str, str]:
    """Pay an order, unless it is too late."""
    if orders.get(order) != "unpaid":
        raise HTTPException(409, f"order {order} cannot be paid")
    orders[order] = "paid"
    task = await scheduler.cancel(f"order-{order}", "paid")
    return {"task": task.id, "status": task.status}


async def main() -> None:
    """Place two orders, pay one, and let the time of the other come."""
    over = asyncio.Event()
    scheduler.events.listen(lambda event: over.set() if event.kind == "completed" else None)
    async with lifespan(app), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
        for request in ("/orders/7", "/orders/8", "/orders/7/payment", "/tasks/v1/tasks/order-8:run"):
            answer = await client.post(request)
            print(f"POST {request}: {answer.status_code}")
        await over.wait()
        print((await client.get("/tasks/v1/tasks/order-8")).json()["result"])
        print(f"POST /orders/8/payment: {(await client.post('/orders/8/payment')).json()['detail']}")


if __name__ == "__main__":
    asyncio.run(main())
