"""Every statement of the seed "Agents & Shell Tool" and every fault of the server that it describes, as data.

`tests/wire/test_manifest.py` holds them to the tests; `progress.py` says how far the work is.
"""

from tests.wire.manifest.containers import CONTAINERS
from tests.wire.manifest.conversations import CONVERSATIONS
from tests.wire.manifest.files import FILES
from tests.wire.manifest.hadrian_table import HADRIAN_TABLE
from tests.wire.manifest.hadrian_weaknesses import HADRIAN_WEAKNESSES
from tests.wire.manifest.limits import LIMITS
from tests.wire.manifest.overview import OVERVIEW
from tests.wire.manifest.promise import Promise
from tests.wire.manifest.tool import TOOL
from tests.wire.manifest.websocket import WEBSOCKET

MANIFEST: tuple[Promise, ...] = (
    *OVERVIEW,
    *TOOL,
    *FILES,
    *CONTAINERS,
    *LIMITS,
    *CONVERSATIONS,
    *HADRIAN_TABLE,
    *HADRIAN_WEAKNESSES,
    *WEBSOCKET,
)

SEED_LINES = 238
# Headings, the head of a table, and a pointer to another feature (knowledge bases): lines that promise nothing.
SILENT_LINES = frozenset({1, 9, 17, 19, 20, 42, 50, 101, 102, 118, 131, 176, 182, 191, 225, 226, 227, 234, 235})
