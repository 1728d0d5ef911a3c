"""/v1/stats, /v1/cluster and /v1/handlers: how it goes, who owns what, and what can be run."""

import msgspec
from litestar import get

from tickwheel.server.answers import Answer, answer
from tickwheel.server.figures import LatenessShape, PointShape, RatesShape
from tickwheel.server.moments import moment, moment_or_none, seconds
from tickwheel.server.service import Asked, service_of

__all__ = ["ClusterShape", "HandlerList", "StatsShape", "handlers"]


class StatsShape(msgspec.Struct, frozen=True, kw_only=True):
    """How it goes, since this process began."""

    at: str
    added: int
    executed: int
    failed: int
    cancelled: int
    retried: int
    per_second: RatesShape
    lateness: LatenessShape
    counts: dict[str, int]
    queued: int
    queued_max: int
    oldest_due: str | None
    history: list[PointShape]


class NodeShape(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler on the store, and the partitions whose tasks it runs."""

    node: str
    partitions: list[int]
    this: bool


class PartitionShape(msgspec.Struct, frozen=True, kw_only=True):
    """A partition and its lease."""

    partition: int
    node: str
    epoch: int
    expires: str | None  # None: when the process of its node ends


class ClusterShape(msgspec.Struct, frozen=True, kw_only=True):
    """Who owns what, as far as this process knows."""

    node: str | None
    nodes: list[NodeShape]
    partitions: list[PartitionShape]


class HandlerShape(msgspec.Struct, frozen=True, kw_only=True):
    """A handler, and what its tasks are like unless they say otherwise."""

    name: str
    timeout: float
    retries: int
    concurrency: int | None
    pool: str


class HandlerList(msgspec.Struct, frozen=True):
    """The handlers this process knows."""

    handlers: list[HandlerShape]


@get("/v1/stats", opt={"role": "read"})
async def stats(request: Asked) -> Answer:
    """Say how it goes."""
    service = service_of(request)
    counts = await service.scheduler.counts()
    picture, totals = service.scheduler.picture(), service.figures.totals
    return answer(
        StatsShape(
            at=moment(service.now()),
            added=totals["added"],
            executed=totals["executed"],
            failed=totals["failed"],
            cancelled=totals["cancelled"],
            retried=totals["retried"],
            per_second=service.figures.rates(),
            lateness=service.figures.lateness(),
            counts={status.value: count for status, count in counts.items()},
            queued=0 if picture is None else picture.queued,
            queued_max=0 if picture is None else picture.queued_max,
            oldest_due=moment_or_none(None if picture is None else picture.oldest_due_at),
            history=list(service.figures.points),
        )
    )


@get("/v1/cluster", opt={"role": "read"})
async def cluster(request: Asked) -> Answer:
    """Say who owns what."""
    scheduler = service_of(request).scheduler
    node, leases = scheduler.node, await scheduler.leases()
    owned: dict[str, list[int]] = {} if node is None else {node: []}
    for lease in leases:
        owned.setdefault(lease.node, []).append(lease.partition)
    return answer(
        ClusterShape(
            node=node,
            nodes=[
                NodeShape(node=name, partitions=sorted(partitions), this=name == node)
                for name, partitions in sorted(owned.items())
            ],
            partitions=[
                PartitionShape(
                    partition=lease.partition,
                    node=lease.node,
                    epoch=lease.epoch,
                    expires=moment_or_none(lease.expires_at),
                )
                for lease in leases
            ],
        )
    )


@get("/v1/handlers", opt={"role": "read"})
async def list_handlers(request: Asked) -> Answer:
    """List what can be run."""
    known = [
        HandlerShape(
            name=handler.name,
            timeout=seconds(handler.timeout_ms),
            retries=handler.retry.retries,
            concurrency=handler.concurrency,
            pool=handler.runs_in,
        )
        for handler in service_of(request).scheduler.handlers()
    ]
    return answer(HandlerList(known))


handlers = [stats, cluster, list_handlers]
