"""The library's face, and runtimes by name."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import limpet
import limpet.tools
from limpet import wiring
from limpet.core.errors import ConfigInvalid

OUR_HEAVY = ("limpet.server", "limpet.store", "limpet.upstreams", "limpet.responses", "limpet.runtimes", "sqlalchemy")
# A name that goes, or gets another name, breaks programs of users: these lists change with a page of changes/ alone.
PUBLIC = {
    "Aborted",
    "ApprovalMissing",
    "ApprovalQueue",
    "ApprovalRequest",
    "Approved",
    "Argv",
    "AuditRecord",
    "Call",
    "Clock",
    "Command",
    "CommandDenied",
    "CommandRefused",
    "ConfigInvalid",
    "DomainSecret",
    "Exited",
    "FileDenied",
    "FileError",
    "Limits",
    "LimpetError",
    "Lost",
    "Network",
    "Offer",
    "OfferMissing",
    "Outcome",
    "Policy",
    "Process",
    "Redaction",
    "Refused",
    "RunResult",
    "SandboxGone",
    "SandboxRef",
    "Script",
    "Secret",
    "Terminal",
    "TimedOut",
    "Workspace",
    "Workspaces",
    "open_workspace",
}
PUBLIC_OF_TOOLS = {
    "BashConfig",
    "BashTool",
    "Execution",
    "Executions",
    "RunTool",
    "ShellCmdConfig",
    "ShellCmdTool",
    "ShellConfig",
    "Tool",
    "ToolEvent",
    "refuse_foreign",
    "shell_config_from",
    "tools_for",
}
# Functions and classes of modules that users import by their paths, with the extra that each needs.
PUBLIC_OF_MODULES = {
    "limpet.integrations.inspect_ai": {"LimpetConfig", "WorkspaceSandbox"},
    "limpet.integrations.langchain": {"langchain_tools"},
    "limpet.integrations.openai_agents": {"function_tools", "limpet_shell"},
    "limpet.integrations.pydantic_ai": {"limpet_toolset"},
    "limpet.testing.engines": {"EngineLab", "RunSteps", "run_engine_case"},
    "limpet.testing.lab": {"Lab", "PromiseBroken", "Ran", "eventually", "expect", "open_lab", "raises", "same"},
    "limpet.testing.run": {"run_suite"},
    "limpet.testing.suite": {
        "Case",
        "Cases",
        "Failed",
        "GapClosed",
        "KnownGap",
        "Passed",
        "Skipped",
        "run_case",
        "unknown_gaps",
    },
}


@pytest.mark.anyio
async def test_a_workspace_is_opened_by_the_name_of_its_runtime(tmp_path: Path) -> None:
    async with limpet.open_workspace("box", runtime="local", directory=tmp_path / "kept") as box:
        result = await box.run("echo hello | tee file")

    assert (result.stdout, result.outcome) == (b"hello\n", limpet.Exited(0))
    assert (tmp_path / "kept" / "data" / "file").read_text() == "hello\n"


@pytest.mark.parametrize("name", ["microsandbox", "opensandbox"])
def test_a_runtime_not_built_yet_is_refused_naming_those_that_are(name: str) -> None:
    with pytest.raises(
        ConfigInvalid, match=f"'{name}' is not built yet; choose one of: bubblewrap, docker, local, memory"
    ):
        wiring.load_runtime(name)


def test_an_unknown_runtime_is_refused_where_it_was_named() -> None:
    with pytest.raises(ConfigInvalid, match=r"limpet.toml: features.shell.type: 'bubblwrap' is not a runtime"):
        wiring.load_runtime("bubblwrap", where="limpet.toml", key="features.shell.type")


def test_every_public_name_is_there() -> None:
    for name in dir(limpet):
        assert getattr(limpet, name) is not None
    with pytest.raises(AttributeError):
        limpet.no_such_name  # noqa: B018 - asking for it is the test


def test_no_public_name_is_added_or_goes_unnoticed() -> None:
    for module, names in ((limpet, PUBLIC), (limpet.tools, PUBLIC_OF_TOOLS)):
        assert set(vars(module)["_MODULE_OF"]) == names
        assert [name for name in sorted(names) if getattr(module, name, None) is None] == []


@pytest.mark.parametrize("module", PUBLIC_OF_MODULES)
def test_the_modules_that_users_import_by_path_define_what_they_did(module: str) -> None:
    path = Path(limpet.__file__).parent.joinpath(*module.split(".")[1:]).with_suffix(".py")
    tree = ast.parse(path.read_text("utf-8"))
    defined = {
        node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert PUBLIC_OF_MODULES[module] - defined == set()


def test_the_library_loads_no_server_store_upstream_or_runtime_before_it_needs_one() -> None:
    program = "import sys, limpet; limpet.open_workspace; print('\\n'.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert [name for name in loaded if name.startswith(OUR_HEAVY)] == []
