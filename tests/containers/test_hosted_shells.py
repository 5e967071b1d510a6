"""A hosted shell is the box's own where the operator set no rules, and a guarded one where there are some; records are the response's."""

import logging
from pathlib import Path

import pytest

from limpet.containers.manager import ContainerManager
from limpet.containers.shell_rules import ShellRules
from limpet.core.errors import CommandDenied
from limpet.core.ports import Runtime
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction
from limpet.store.database import Database
from limpet.workspace.audit import AUDIT_LOG
from limpet.workspace.shell import SandboxShell
from limpet.workspace.workspace import Workspace

pytestmark = pytest.mark.anyio

TENANT = "default"


@pytest.mark.parametrize(
    "rules, kind",
    [
        (ShellRules(), SandboxShell),
        (ShellRules(policy=Policy(blocked_commands=frozenset({"uname"}))), Workspace),
        (ShellRules(redaction=Redaction(patterns=["ticket-[0-9]+"])), Workspace),
    ],
    ids=["none", "policy", "redaction"],
)
async def test_the_shell_is_what_the_rules_ask_for_and_is_made_once_for_a_box(
    runtime: Runtime, db: Database, tmp_path: Path, rules: ShellRules, kind: type, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, AUDIT_LOG)
    async with ContainerManager(runtime, db, home=tmp_path, rules=rules) as manager:
        container = (await manager.create(TENANT, name="c", spec=manager.narrow({}))).id
        async with manager.lease(TENANT, container) as lease:
            first = lease.shell
            result = await lease.shell.run("echo ticket-4711")
            refused = ""
            try:
                await lease.shell.run("uname")
            except CommandDenied as denied:
                refused = denied.rule
        async with manager.lease(TENANT, container) as lease:
            assert lease.shell is first

    assert type(first) is kind
    assert result.stdout == (b"ticket-4711\n" if rules.redaction is None else b"[REDACTED:pattern]\n")
    assert refused == ("" if rules.policy is None else "blocked_commands")
    assert not caplog.messages  # the response writes the record of a hosted command
