"""The audit record of a hosted command: one line `shell_audit` in the log. It holds no text of the command and none of its output;
both are in the response, found by the response's id and the exec id."""

import structlog

from limpet.core.command import Aborted, Outcome, exit_code
from limpet.core.errors import CommandDenied, CommandRefused

MARK = "shell_audit"
log = structlog.get_logger()


def audit(
    exec_id: str,
    *,
    tenant: str,
    container: str,
    response: str,
    seconds: float,
    outcome: Outcome | None,
    refusal: CommandRefused | None = None,
    rule: str | None = None,
) -> None:
    """Write it. `outcome` None says that the command goes on without this gateway; `refusal` says why nothing ran, `rule` then which
    setting of the policy refused it; `rule` is that of what is no command. `exit_code` is that of the response's outcome, and 124 for a
    time limit; `duration` is in seconds."""
    facts: dict[str, object] = {}
    if outcome is not None:
        facts["exit_code"] = 130 if isinstance(outcome, Aborted) else exit_code(outcome)
    if refusal is not None:
        facts["rule"] = refusal.rule if isinstance(refusal, CommandDenied) else None
    if rule is not None:
        facts["rule"] = rule
    log.info(
        MARK,
        tenant=tenant,
        container=container,
        response=response,
        exec_id=exec_id,
        verdict="allowed" if refusal is None and rule is None else "denied",
        outcome="unfinished" if outcome is None else type(outcome).__name__.lower(),
        duration=round(seconds, 6),
        **{name: value for name, value in facts.items() if value is not None},
    )
