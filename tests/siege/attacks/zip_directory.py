"""A zip that is all directory: very many entries of nothing"""

import io
import zipfile

from tests.siege.attack import Target

SECONDS = 5.0


def attack(target: Target) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("s/SKILL.md", "---\nname: s\ndescription: d\n---\ntext\n")
        for number in range(60_000):
            archive.writestr(f"s/{number:0>200}", b"")
    part = 'Content-Disposition: form-data; name="files"; filename="s.zip"\r\nContent-Type: application/zip'
    body = f"--edge\r\n{part}\r\n\r\n".encode() + packed.getvalue() + b"\r\n--edge--\r\n"
    while True:
        target.ask("POST", "/v1/skills", ("multipart/form-data; boundary=edge", body), timeout=60)
