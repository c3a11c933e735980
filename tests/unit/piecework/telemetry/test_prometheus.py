"""What Prometheus reads at `/metrics`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from piecework.errors import UsageError
from piecework.settings import Settings
from piecework.telemetry.emf import MAX_PARTS, Gauge
from piecework.telemetry.prometheus import publish_metrics, serve_prometheus
from tests.unit.piecework.telemetry.whole import emit_whole

OWN = {"app": "piecework", "env": "local"}


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def read(port: int) -> Iterator[tuple[str, dict[str, str], float]]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, dict(sample.labels), sample.value


async def test_counts_gauges_and_distributions_are_served_and_never_reset(
    port: int,
) -> None:
    settings = Settings(prometheus_port=port)
    gauges = [Gauge("ChunksInProgress", 2), Gauge("BreakersOpen", 1, ("D", "model"))]
    async with publish_metrics(settings, lambda: 5.0, lambda: gauges):
        for _ in range(2):
            emit_whole("chunk.succeeded", chunk=3, duration_ms=700)
            found = list(read(port))
        emit_whole("call.attempt", outcome="failed", error_code="tool.stock.none")
        last = list(read(port))

    assert ("piecework_chunks_succeeded_total", OWN, 2) in found
    assert ("piecework_chunks_in_progress", OWN, 2) in found
    assert ("piecework_chunk_seconds_count", OWN, 2) in found
    assert ("piecework_chunk_seconds_bucket", OWN | {"le": "0.5"}, 0) in found
    assert ("piecework_chunk_seconds_bucket", OWN | {"le": "1.0"}, 2) in found
    by_code = OWN | {"error_code": "tool.stock.none"}
    assert ("piecework_errors_total", by_code, 1) in last
    with pytest.raises(OSError, match="refused"):
        list(read(port))


def test_codes_without_bound_get_a_bounded_number_of_series(port: int) -> None:
    with serve_prometheus(Settings(prometheus_port=port)):
        for number in range(3 * MAX_PARTS):
            emit_whole("call.attempt", error_code=f"acme.code.n{number}")
        found = [labels for name, labels, _ in read(port) if name.startswith("piece")]

    codes = {labels["error_code"] for labels in found if "error_code" in labels}
    assert len(codes) == MAX_PARTS + 1
    assert "other" in codes


def test_a_port_of_another_process_is_a_coded_error(port: int) -> None:
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(UsageError) as caught,
        serve_prometheus(Settings(prometheus_port=port)),
    ):
        pass

    assert caught.value.code == "config.prometheus_port.unavailable"
