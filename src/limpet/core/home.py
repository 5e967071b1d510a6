"""Where state lives, for every face alike."""

import os
from collections.abc import Mapping
from pathlib import Path

from limpet.core.errors import ConfigInvalid


def home_directory(environ: Mapping[str, str]) -> Path:
    """LIMPET_HOME, else /var/lib/limpet as root, else ~/.local/share/limpet. Absolute.

    Raises ConfigInvalid where that needs a home directory of a user who has none: no HOME, and no entry in /etc/passwd.
    """
    try:
        return _home_directory(environ)
    except RuntimeError as error:
        raise ConfigInvalid(
            "the environment",
            "LIMPET_HOME",
            f"there is no home directory to put state in ({error}); name a directory in it",
        ) from error


def _home_directory(environ: Mapping[str, str]) -> Path:
    if named := environ.get("LIMPET_HOME"):
        return Path(named).expanduser().absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/limpet")
    return Path(environ.get("HOME") or "~").expanduser() / ".local/share/limpet"
