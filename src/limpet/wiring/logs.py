"""Where a gateway's log goes: lines on standard error, from structlog and from every library, without any configured secret."""

import logging
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import structlog

from limpet.core.hiding import HidingFormatter, hide_secrets, protect, secrets_in
from limpet.core.secret import Secret

if TYPE_CHECKING:
    from limpet.config import Config

# What other libraries read from the environment by themselves.
_VARIABLES = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "LIMPET_MCP_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")


def protect_secrets(config: "Config", environ: Mapping[str, str] = os.environ) -> None:
    """From now on no error and no log line of this process shows a secret of these settings."""
    variables = (Secret(environ.get(name, "")) for name in _VARIABLES)
    protect([*secrets_in(config), *_passwords_in(config.database.url or ""), *variables])


def _passwords_in(url: str) -> list[Secret]:
    """As it stands there, and as it is meant."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    written = [parts.password or "", *parse_qs(parts.query).get("password", [])]
    return [Secret(spelling) for password in written for spelling in {password, unquote(password)} if password]


def log_to_stderr(name: str = "info") -> None:
    """Events as lines of key and value on standard error; colours only where a person looks on. `name` is the least level that is
    written."""
    level = logging.getLevelNamesMapping()[name.upper()]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Plain: the richer ones show the values of variables, and with them what people asked and secrets.
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
            _hidden,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    # Libraries speak through logging, whose last resort would write their tracebacks as they are.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(HidingFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler])


def _hidden(logger: object, method: str, line: Any) -> str:
    return hide_secrets(str(line))
