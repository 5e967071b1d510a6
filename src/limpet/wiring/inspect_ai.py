"""What inspect_ai loads by its entry point: the sandbox environment of the name "limpet", whose boxes `open_workspace` opens."""

from inspect_ai.util import sandboxenv

from limpet.integrations.inspect_ai import WorkspaceSandbox
from limpet.wiring import open_workspace


@sandboxenv(name="limpet")
class LimpetSandbox(WorkspaceSandbox):
    """`sandbox="limpet"`, where no configuration is given in boxes of bubblewrap."""

    opens = staticmethod(open_workspace)
