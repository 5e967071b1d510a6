"""Stands where a gateway has no boxes of its own: its clients, or a provider, run all commands. It starts nothing."""

from typing import Self

from limpet.core.errors import RuntimeUnavailable, SandboxGone
from limpet.core.ports import Held, Offer, Probe, Runtime, Sandbox, SandboxRef, SandboxSpec


class ElsewhereRuntime(Runtime):
    """core.ports.Runtime without sandboxes. `name` is that of the setting which chose it, `who` runs commands in its stead."""

    def __init__(self, name: str, who: str) -> None:
        self._name = name
        self._who = who

    @property
    def name(self) -> str:
        return self._name

    @property
    def offers(self) -> frozenset[Offer]:
        return frozenset({Offer.ISOLATION})  # of this host nothing can be reached, since nothing runs

    @property
    def held(self) -> Held:
        return Held()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    async def probe(self) -> Probe:
        return Probe(works=True, detail=f"{self._who}; this gateway runs no command.")

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """Raises RuntimeUnavailable, always."""
        raise RuntimeUnavailable(self._name, f"{self._who}.", "")

    async def attach(self, ref: SandboxRef) -> Sandbox:
        """Raises SandboxGone, always."""
        raise SandboxGone("this gateway has no sandboxes any more.")

    async def sweep(self, living: frozenset[str] | None, *, dry_run: bool = False) -> list[str]:
        return []
