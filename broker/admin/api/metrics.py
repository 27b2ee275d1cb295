"""/metrics, for Prometheus."""

from typing import Annotated

from fastapi import APIRouter, Header, Response

from broker.admin.managed import Managed
from broker.admin.prometheus import Prometheus


def metrics_router(managed: Managed) -> APIRouter:
    """The endpoint."""
    router = APIRouter(tags=["metrics"])
    prometheus = Prometheus(managed, managed.totals_walk)

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics(accept: Annotated[str, Header()] = "") -> Response:
        """Counters, gauges and histograms of the broker and its listeners, as Prometheus or OpenMetrics text."""
        text, content_type = await prometheus.scrape(accept)
        return Response(text, media_type=content_type)

    return router
