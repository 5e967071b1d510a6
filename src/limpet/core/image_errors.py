"""Errors of images, beside the tree in `core.errors`."""

from limpet.core.errors import LimpetError


class ImageUnusable(LimpetError):
    """An image cannot be read, pulled or unpacked; nothing of it is kept. `reason` is a clause, `image` its name where that is known."""

    def __init__(self, reason: str, *, image: str = "") -> None:
        super().__init__(f"The image {image} cannot be used: {reason}." if image else f"{reason}.")
        self.reason = reason
        self.image = image
