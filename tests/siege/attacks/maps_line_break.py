"""A mapped file whose name holds every character at which text breaks into lines

What looks at the files that a box has mapped reads /proc/PID/maps; a name is the box's to choose.
"""

COMMAND = r"""exec python3 - <<'END'
import mmap, os, time
held = []
for mark in ("\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", " (deleted)", "\r (deleted)", "x" * 200 + "\r"):
    name = ("/mnt/data/a" + mark + "b").encode()
    file = os.open(name, os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, 8192)
    held.append(mmap.mmap(file, 8192))
    os.unlink(name)
raw = b"/mnt/data/\xff\xfe\r7f00-7f01 rw-p 0 0:0 1"
file = os.open(raw, os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 8192)
held.append(mmap.mmap(file, 8192))
os.unlink(raw)
until = time.time() + 2.5
while time.time() < until:
    held[0][0:4096] = b"x" * 4096
END"""
