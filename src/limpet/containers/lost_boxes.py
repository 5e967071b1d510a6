"""What the model is told of a running container whose box is gone, before it decides on a command. Boots nothing."""

from limpet.containers.boxes import Boxes
from limpet.containers.file_service import ContainerFileService
from limpet.containers.messages import box_to_start
from limpet.core.errors import LimpetError
from limpet.store.containers import ContainerRecord


class LostBoxes:
    """Finds out whether the box of a container is gone."""

    def __init__(self, boxes: Boxes, files: ContainerFileService) -> None:
        self._boxes = boxes
        self._files = files

    async def note(self, record: ContainerRecord) -> str | None:
        """One sentence where the next command in that container starts another box than the one it had; else None."""
        try:
            is_lost = await self._boxes.is_lost(record)
            return box_to_start(await self._files.count_missing(record)) if is_lost else None
        except LimpetError:
            return None  # the next command meets the same, and says what it is
