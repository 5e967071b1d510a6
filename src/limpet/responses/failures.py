"""How a response ends: what becomes of unfinished items, and how a failure is written on the wire. Pure."""

from typing import Any

from limpet.core import exit_codes
from limpet.core.errors import LimpetError, UpstreamError, UpstreamRefused
from limpet.upstreams.endings import ResponseError, is_error_code

Json = dict[str, Any]
UNFORESEEN = "The gateway failed in a way that it did not foresee; its log says more."


def closed_item(item: Json, exit_code: int = exit_codes.LOST) -> Json:
    """An item that broke off, as it is shown: `incomplete`, with what there was. `exit_code` is that of a command without an outcome.
    The items of `apply_patch` know no such status, and keep theirs."""
    if str(item.get("type")).startswith("apply_patch_call"):
        return item
    closed = {**item, "status": "incomplete"}
    if item.get("type") == "shell_call_output":
        closed["output"] = [_closed_entry(entry, exit_code) for entry in item.get("output", [])]
    return closed


def growing_item(item: Json) -> Json:
    """An item that is not done, as a reader of the response finds it meanwhile: an entry of `output` is there once it has an outcome."""
    if item.get("type") != "shell_call_output":
        return item
    return {**item, "output": [entry for entry in item.get("output", []) if "outcome" in entry]}


def _closed_entry(entry: Json, exit_code: int) -> Json:
    whole = {"stdout": "", "stderr": "", **entry}
    if "outcome" not in whole:
        whole["outcome"] = {"type": "exit", "exit_code": exit_code}
    return whole


def error_of(problem: BaseException) -> ResponseError:
    """The `error` of a failed response."""
    match problem:
        case UpstreamRefused(status=429):
            return ResponseError(code="rate_limit_exceeded", message=problem.message)
        case UpstreamRefused(status=400 | 404 | 422):
            code = problem.code if is_error_code(problem.code) else "invalid_prompt"
            more = {"param": problem.param, "misalignment": problem.misalignment}
            return ResponseError.of_provider(code, problem.message, more=more)
        case UpstreamError() | LimpetError():
            return ResponseError(code="server_error", message=problem.message)
        case _:
            return ResponseError(code="server_error", message=UNFORESEEN)
