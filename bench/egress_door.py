"""Doors for benchmarks, in a process of their own: `python -m bench.egress_door COUNT SECRETS PORT…` prints, as JSON, the ports on which
they listen, what a box must trust and its placeholder. The doors admit HOST on these ports; SECRETS is a file with the authority of the
upstream, or "-" for doors without secrets. Ends when its standard input does.
"""

import json
import socket
import ssl
import sys
from collections.abc import Sequence
from functools import partial

import anyio
from anyio import to_thread

from limpet.core.network import DoorListeners
from limpet.core.secret import Secret
from limpet.egress.authority import Authority
from limpet.egress.connection_budget import ConnectionBudget
from limpet.egress.door import Door
from limpet.egress.interception import Interceptor
from limpet.egress.network import place_secrets
from limpet.egress.policy import read_policy
from limpet.egress.secrets import DomainSecret

HOST = "api.bench.example"
VALUE = "secret-of-a-benchmark"


async def resolve(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


async def main(count: int, trust: str, ports: list[int]) -> None:
    policy = read_policy([HOST], ports=ports, networks=["127.0.0.0/8"])
    budget, told = ConnectionBudget(), dict[str, object]()
    tls = None if trust == "-" else ssl.create_default_context(cafile=trust)
    async with anyio.create_task_group() as tasks:
        listening = []
        for number in range(count):
            interceptor = None
            if tls is not None:
                placed = place_secrets({"TOKEN": DomainSecret(value=Secret(VALUE), hosts=(HOST,))})
                interceptor = Interceptor(partial(tuple, placed), Authority.for_hosts(placed[0].hosts), tls=tls)
                told |= {"trust": interceptor.certificate.decode(), "placeholder": placed[0].placeholder.decode()}
            listener = socket.create_server(("127.0.0.1", 0), backlog=512)
            listening.append(listener.getsockname()[1])
            door = Door(str(number), policy, resolve=resolve, budget=budget, interceptor=interceptor)
            tasks.start_soon(door.serve, DoorListeners(web={80: listener}))
        await anyio.sleep(0.1)
        sys.stdout.write(json.dumps({"doors": listening, **told}) + "\n")
        sys.stdout.flush()
        await to_thread.run_sync(sys.stdin.read)
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]), sys.argv[2], [int(port) for port in sys.argv[3:]])
