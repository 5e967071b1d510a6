"""What the types of providers cost at the start: nothing of their libraries, until a turn needs them."""

import subprocess
import sys

from limpet.wiring.gateway import BY_LIBRARY, READ_DIRECTLY

CONFIGURED = f"""
import sys
from limpet.core.secret import Secret
from limpet.upstreams.routing import ProviderSettings
from limpet.wiring import gateway
for kind in {[*BY_LIBRARY, *READ_DIRECTLY]!r}:
    settings = ProviderSettings(name=kind, type=kind, base_url="http://127.0.0.1:1", api_key=Secret("k"))
    gateway._upstream(settings, "the test")
heavy = ("pydantic_ai", "anthropic", "openai", "boto3", "botocore", "google.genai", "google.auth", "azure")
print(sorted(name for name in heavy if name in sys.modules))
"""


def test_a_gateway_with_every_type_of_provider_loads_none_of_their_libraries_at_its_start() -> None:
    done = subprocess.run([sys.executable, "-c", CONFIGURED], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
