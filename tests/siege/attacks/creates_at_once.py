"""Containers created all at once, past the number that a tenant may have"""

from concurrent.futures import ThreadPoolExecutor

from tests.siege.attack import Target

MOST = 3  # as the gateway is configured


def attack(target: Target) -> None:
    with ThreadPoolExecutor(60) as pool:
        for _ in range(60):
            pool.submit(target.ask, "POST", "/v1/containers", {"name": "one more"})


def holds(target: Target) -> None:
    status, answer = target.ask("GET", "/v1/containers?limit=100")
    assert status == 200, answer
    running = [one["id"] for one in answer["data"] if one["status"] in ("running", "active")]
    assert len(running) <= MOST, f"the tenant has {len(running)} containers where {MOST} are allowed"
