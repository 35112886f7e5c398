"""Numbers without names."""

from app_samples import http_client, make, seal, token


def test_requests_and_asks_are_counted_under_routes_and_no_names(tmp_path):
    app = make(seal(tmp_path, "flights"))
    text = token(app, name="grace-hopper")
    with http_client(app, text) as client:
        client.post("/api/v1/holdouts/flights/ask", json={"query": "delay > 5", "guess": 0.5})
        client.get("/secret-path-of-a-client")
        client.request("MAKEUP", "/healthz")
        told = client.get("/metrics").text
    assert 'everhold_requests_total{method="POST",route="/api/v1/holdouts/{name}/ask",status="200"} 1.0' in told
    assert 'everhold_asks_total{outcome="guess"} 1.0' in told
    assert 'method="other",route="/healthz",status="405"' in told
    assert 'method="GET",route="none",status="404"' in told
    assert "everhold_requests_in_flight 1.0" in told
    assert "everhold_request_seconds_bucket" in told
    assert 'everhold_budget_left{holdout="flights",of="queries"} 99.0' in told
    for name in ("requests_waiting 0.0", "threads_busy 1.0", "writers_waiting 0.0", "connections_in_use 0.0"):
        assert f"everhold_{name}\n" in told
    assert "process_resident_memory_bytes" in told
    assert "process_cpu_seconds_total" in told
    for name in ("grace", "secret-path", "MAKEUP", text.split("_")[1]):
        assert name not in told
    assert all("flights" not in line for line in told.splitlines() if "everhold_budget_left{" not in line)
