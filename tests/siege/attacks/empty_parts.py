"""An upload of 60 MB of empty multipart parts"""

from tests.siege.attack import Target

SECONDS = 5.0
PART = b'--e\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'


def attack(target: Target) -> None:
    body = PART * (60_000_000 // len(PART)) + b"--e--\r\n"
    while True:
        target.ask("POST", "/v1/files", ("multipart/form-data; boundary=e", body), timeout=60)
