"""What a response, a conversation and a tenant may use up: held in the middle of a run, told to the model, counted."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Gateway, lasting
from tests.support.host import eventually, rows
from tests.support.providers.turns import ShellCall, reply
from tests.wire.asking import SHELL, shell_blocks
from tests.wire.conftest import RUNTIME
from tests.wire.provider import MODEL, Provider
from tests.wire.schema import check_error

Json = dict[str, Any]
TURN = 18  # tokens of a scripted one


def ask(gateway: Gateway, **body: Any) -> Json:
    with gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": MODEL, "input": "go", "tools": SHELL, **body})
    assert answer.status_code == 200, answer.text
    whole: Json = answer.json()
    return whole


def reached(limit: str, value: float, scope: str = "response") -> Json:
    return {"reason": "budget_reached", "budget": {"scope": scope, "limit": limit, "value": value}}


@pytest.mark.parametrize(
    "budget, limit, turns", [({"max_turns": 2}, "max_turns", 2), ({"max_tokens": 3 * TURN - 1}, "max_tokens", 2)]
)
def test_the_model_is_told_before_its_last_turn_and_has_no_shell_in_it(
    scripted_gateway: Gateway, provider: Provider, budget: Json, limit: str, turns: int
) -> None:
    provider.play(ShellCall(("echo one",)), "this far I came", "never asked")
    response = ask(scripted_gateway, budget=budget)

    assert (response["status"], response["incomplete_details"]) == ("incomplete", reached(limit, budget[limit]))
    assert response["output"][-1]["content"][0]["text"] == "this far I came"
    assert response["usage"]["total_tokens"] == turns * TURN
    first, last = provider.asked
    assert limit not in (first.get("instructions") or "")
    assert any(tool["type"] == "shell" for tool in first["tools"])
    assert limit in last["instructions"]
    assert not any(tool["type"] == "shell" for tool in last.get("tools", []))


def test_a_turn_answers_with_no_more_tokens_than_are_left(scripted_gateway: Gateway, provider: Provider) -> None:
    provider.play(reply("cut sho", ends="max_output_tokens"))
    response = ask(scripted_gateway, budget={"max_tokens": 40}, max_output_tokens=1000)
    assert response["incomplete_details"] == reached("max_tokens", 40)
    assert provider.asked[0]["max_output_tokens"] == 40

    provider.play(reply("cut sho", ends="max_output_tokens"))
    response = ask(scripted_gateway, budget={"max_tokens": 1000}, max_output_tokens=20)
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert provider.asked[0]["max_output_tokens"] == 20


def test_a_command_ends_in_time_for_a_last_word(scripted_gateway: Gateway, provider: Provider) -> None:
    provider.play(ShellCall(("echo warm",)), "ready", ShellCall(("echo begun; sleep 60",)), "time is over")
    warm = ask(scripted_gateway)["id"]  # its box has booted
    response = ask(scripted_gateway, budget={"max_wall_secs": 2.0}, previous_response_id=warm)

    assert (response["status"], response["incomplete_details"]) == ("incomplete", reached("max_wall_secs", 2.0))
    assert response["output"][1]["output"][0]["outcome"] == {"type": "timeout"}
    assert "max_wall_secs" in provider.asked[-1]["instructions"]


def test_a_model_that_goes_on_talking_is_cut_off(scripted_gateway: Gateway, provider: Provider) -> None:
    provider.play(reply("on and on", hold_after=4))
    response = ask(scripted_gateway, budget={"max_wall_secs": 1.5})

    assert (response["status"], response["incomplete_details"]) == ("incomplete", reached("max_wall_secs", 1.5))
    provider.wait_left()


def test_a_conversation_has_a_budget_of_its_own(scripted_gateway: Gateway, provider: Provider) -> None:
    provider.play("one", "two")
    budget = {"conversation": {"max_turns": 2}}
    first = ask(scripted_gateway, budget=budget)
    second = ask(scripted_gateway, budget=budget, previous_response_id=first["id"])
    with scripted_gateway.http() as http:
        body = {"model": MODEL, "input": "go on", "budget": budget, "previous_response_id": second["id"]}
        third = http.post("/v1/responses", json=body)

    assert (first["status"], second["status"], third.status_code) == ("completed", "completed", 429)
    check_error(third.json())
    assert third.json()["error"]["code"] == "insufficient_quota"
    assert "max_turns" in provider.asked[1]["instructions"]


@pytest.mark.parametrize("budget", [{"max_turns": 0}, {"max_token": 5}, {"conversation": {"max_wall_secs": -1}}, 5])
def test_a_budget_that_says_nothing_is_refused(scripted_gateway: Gateway, budget: Any) -> None:
    with scripted_gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": MODEL, "input": "go", "budget": budget})
    assert answer.status_code == 400
    check_error(answer.json())
    assert answer.json()["error"]["param"].startswith("budget")


TENANTS = "[features.responses.budgets.tenant]\nmax_turns = 5\n"


def test_a_tenants_usage_is_counted_kept_and_held(home_directory: Path) -> None:
    """Of responses that ended, that were deleted while they ran, and that are not stored; and across a restart."""
    body = {"model": "limpet/script", "tools": SHELL}
    with lasting(home_directory, runtime=RUNTIME, config=TENANTS) as gateway, gateway.http() as http:
        http.post("/v1/responses", json={**body, "input": shell_blocks("true")})  # 2 turns
        http.post("/v1/responses", json={**body, "input": "hello", "store": False})  # 1 turn
        running = {**body, "input": shell_blocks("sleep 618.5"), "background": True}
        begun = http.post("/v1/responses", json=running).json()  # 1 turn until its command
        eventually(lambda: rows(gateway.home / "limpet.db", "SELECT 1 FROM executions WHERE finished_at IS NULL"))
        http.delete(f"/v1/responses/{begun['id']}")
        usage = used(gateway)
        gateway.kill()
        gateway.start()
        with gateway.http() as again:
            last = again.post("/v1/responses", json={**body, "input": shell_blocks("echo never > never")}).json()
            refused = again.post("/v1/responses", json={**body, "input": "hello"})
            metrics = again.get("/metrics").text
        now = used(gateway)

    assert (usage["num_responses"], usage["num_model_requests"], usage["model"]) == (3, 4, "limpet/script")
    assert now["num_model_requests"] == 5
    assert [item["type"] for item in last["output"]] == ["message"]
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
    assert "limpet_model_turns_total 1.0" in metrics


def used(gateway: Gateway) -> Json:
    """The newest hour of this tenant, of its one model. It may be the one before, where an hour has just begun."""
    with gateway.http() as http:
        page = http.get("/v1/usage", params={"group_by": "model", "bucket_width": "1h", "limit": 2}).json()
    assert (page["object"], page["has_more"], page["next_page"]) == ("page", False, None)
    assert [bucket["end_time"] - bucket["start_time"] for bucket in page["data"]] == [3600, 3600]
    results = [result for bucket in page["data"] for result in bucket["results"]]
    sums: Json = {**results[0]}
    for result in results[1:]:
        for key in ("num_responses", "num_model_requests"):
            sums[key] += result[key]
    return sums
