"""A framework that is not installed: one sentence says what to install."""

import subprocess
import sys

import pytest

# Keeps one package from being found, as where it is not installed, and imports the integration.
SCRIPT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[2]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
try:
    __import__("limpet.integrations." + sys.argv[1])
except ModuleNotFoundError as missing:
    print(missing)
"""


@pytest.mark.parametrize(
    "module, package, extra",
    [
        ("openai_agents", "agents", "agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
        ("langchain", "langchain_core", "langchain"),
        ("inspect_ai", "inspect_ai", "inspect"),
    ],
)
def test_a_framework_that_is_missing_is_named_with_what_installs_it(module: str, package: str, extra: str) -> None:
    told = [sys.executable, "-c", SCRIPT, module, package]
    ran = subprocess.run(told, check=False, capture_output=True, text=True, timeout=60)

    assert (ran.stderr, ran.stdout) == (
        "",
        f'{package} is not installed, and limpet.integrations needs it here: pip install "limpet[{extra}]"\n',
    )
