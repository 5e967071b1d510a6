"""Where state lives, for every face alike."""

import os
from collections.abc import Mapping
from pathlib import Path


def home_directory(environ: Mapping[str, str]) -> Path:
    """LIMPET_HOME, else /var/lib/limpet as root, else ~/.local/share/limpet. Absolute."""
    if named := environ.get("LIMPET_HOME"):
        return Path(named).expanduser().absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/limpet")
    return Path(environ.get("HOME") or "~").expanduser() / ".local/share/limpet"
