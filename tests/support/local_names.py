"""Names of a test's own: in the process of its gateway the host's resolver answers 127.0.0.1 for every name below `.example`."""

import socket
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LocalNames:
    """`suffix` such as `.good.example`. The program has no such switch: the system's own resolver is replaced in its process."""

    suffix: str = ".example"

    def install(self) -> None:
        """In this process, for its whole life."""
        system = socket.getaddrinfo

        def answering(host: Any, *rest: Any, **more: Any) -> Any:
            is_ours = isinstance(host, str) and host.endswith(self.suffix)
            return system("127.0.0.1" if is_ours else host, *rest, **more)

        socket.getaddrinfo = answering
