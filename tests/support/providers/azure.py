"""A resource of Azure OpenAI, by script: OpenAI's wire at Azure's addresses."""

from collections.abc import Sequence

from tests.support.providers.openai_responses import ScriptedResponses
from tests.support.providers.server import Scripted


class ScriptedAzure(ScriptedResponses):
    """`POST {base_url}/responses`, in the v1 API or in a dated one, which has another address."""

    prefix = "/openai/v1"

    def __init__(self, turns: Sequence[Scripted] = (), *, is_dated: bool = False) -> None:
        super().__init__(turns)
        if is_dated:
            self.prefix = "/openai"

    @property
    def resource(self) -> str:
        """What the operator writes as `base_url`."""
        return self.base_url.removesuffix(self.prefix)
