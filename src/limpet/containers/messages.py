"""Messages to clients and models about a container that has expired, is gone or is in another state than they assume. Pure."""

from limpet.core.errors import NotFound, Overloaded, RequestError, RequestInvalid
from limpet.store.nodes import NodeRecord


class ContainerElsewhere(RequestError):
    """The container lies in the home of another gateway on the same database. `home` is that one's, None where it is of no use to ask
    there."""

    status = 409

    def __init__(self, message: str, *, container_id: str, home: str | None) -> None:
        super().__init__(message, code="container_elsewhere")
        self.container_id = container_id
        self.home = home


def no_container(container_id: str) -> NotFound:
    return NotFound(
        f"There is no container {container_id}. Create one with POST /v1/containers.", code="container_not_found"
    )


def has_expired(container_id: str) -> RequestInvalid:
    return RequestInvalid(
        f"The container {container_id} has expired and its data is gone. Create a new one.", code="container_expired"
    )


def lies_elsewhere(container_id: str, home: str | None) -> ContainerElsewhere:
    return ContainerElsewhere(
        f"The container {container_id} lies on another gateway ({home}), and only that one reaches its box and files. Send the request "
        "there, or go on in a new container.",
        container_id=container_id,
        home=home,
    )


def left_behind(container_id: str, node: NodeRecord) -> ContainerElsewhere:
    return ContainerElsewhere(
        f"The container {container_id} lies on another gateway ({node.home}), which has not been heard of for {node.silent:.0f} s, and its "
        "files are nowhere else. Go on in a new container, or start that gateway again. The operator can have files outlive their "
        "gateway: storage.container_files.",
        container_id=container_id,
        home=None,
    )


def cannot_come_now(container_id: str) -> Overloaded:
    return Overloaded(
        f"The container {container_id} lay on a gateway that is gone, and the copies of its files cannot be read now. Nothing is lost: try "
        "again in a moment.",
        code="container_files_unavailable",
    )


def lost_box(missing: int) -> str:
    return f"The container's box was lost and has been started again: {_kept(missing)}"


def box_to_start(missing: int) -> str:
    return f"The container's box was lost. The next command starts another one: {_kept(missing)}"


def _kept(missing: int) -> str:
    files = f"{missing} of its files are gone" if missing else "its files are kept"
    return f"{files}, processes that ran in it are gone."
