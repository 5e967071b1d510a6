"""Filters on sockets, of which the whole host has a fixed amount of memory"""

from tests.siege.attack import Target

SECONDS = 5.0
COMMAND = r"""exec python3 - <<'END'
import ctypes, socket, struct, time
program = b"".join(struct.pack("HBBI", 0x00, 0, 0, 1) for _ in range(4000)) + struct.pack("HBBI", 0x06, 0, 0, 0)
buffer = ctypes.create_string_buffer(program)
held = []
try:
    while True:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        one.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HL", 4001, ctypes.addressof(buffer)))
        held.append(one)
except OSError as error:
    print(len(held), error)
time.sleep(3)
END"""


def holds(target: Target) -> None:
    one = COMMAND.replace("time.sleep(3)", "").replace("while True:", "for _ in range(3):")
    status, answer = target.run(one)
    assert status == 200, answer
    assert "'stdout': '0 [Errno" in str(answer), f"a box may attach filters to sockets: {str(answer['output'])[:300]}"
