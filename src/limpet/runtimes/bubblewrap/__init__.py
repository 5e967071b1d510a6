"""Boxes made by bubblewrap: namespaces, a seccomp filter, limits, and an agent inside that owns the commands."""

from limpet.runtimes.bubblewrap.runtime import BubblewrapRuntime
from limpet.runtimes.bubblewrap.settings import BubblewrapSettings

__all__ = ["BubblewrapRuntime", "BubblewrapSettings"]
