"""The addresses of what responses are made of: input items, conversations, and conversations that are compacted."""

from starlette.routing import Route

from limpet.core.clock import Clock
from limpet.responses.compact_endpoint import CompactEndpoint
from limpet.responses.conversation_items import ConversationItems
from limpet.responses.conversations import ConversationService
from limpet.responses.input_items import InputItems
from limpet.responses.service import ResponseService
from limpet.responses.settings import ServerToolSettings
from limpet.server import compaction, conversations, input_items
from limpet.store.conversations import Conversations
from limpet.store.database import Database
from limpet.store.journal import Journal
from limpet.store.responses import Responses


def routes(
    database: Database, journal: Journal, service: ResponseService, *, clock: Clock, tools: ServerToolSettings
) -> list[Route]:
    preparer = service.preparer
    rows, kept = Responses(database), Conversations(database, clock=clock)
    characters = tools.shell_limits.max_output_chars
    return [
        *input_items.routes(InputItems(rows, journal, ConversationItems(kept)), preparer),
        *compaction.routes(CompactEndpoint(preparer=preparer, queue=service.queue, responses=rows, clock=clock)),
        *conversations.routes(ConversationService(kept, rows, journal, characters=characters)),
    ]
