"""Skills whose front matter is nested aliases, deep nesting, or values that are no text"""

import base64
import io
import zipfile

from tests.siege.attack import Target, turn

LEVELS = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 9))
NAME = f"---\nl0: &l0 bomb\n{LEVELS}\nname: *l8\ndescription: d\n---\ntext\n"
DESCRIPTION = f"---\nl0: &l0 bomb\n{LEVELS}\nname: bomb\ndescription: *l8\n---\ntext\n"
MERGES = "---\na: &a {x: 1}\n" + "\n".join(f"k{n}: {{<<: [{', '.join(['*a'] * 50)}]}}" for n in range(50)) + "\n---\n"
DEEP = "---\nname: deep\ndescription: " + "[" * 5000 + "]" * 5000 + "\n---\n"
VALUES = [
    f"---\nname: {name}\ndescription: {value}\n---\ntext\n"
    for name, value in [
        ("a", "!!timestamp 2001-13-99"),
        ("b", "!!bool nonsense"),
        ("c", "1:2:3:9999"),
        ("2001-13-99", "d"),
    ]
]
TEXTS = [NAME, DESCRIPTION, MERGES, DEEP, *VALUES]


def attack(target: Target) -> None:
    for text in TEXTS:
        _upload(target, text)
        _inline(target, text)


def holds(target: Target) -> None:
    for text in TEXTS:
        for status, answer in (_upload(target, text), _inline(target, text)):
            assert status == 400, f"a SKILL.md that begins {text[:60]!r} was answered {status}: {str(answer)[:200]}"


def _upload(target: Target, text: str) -> tuple[int, object]:
    part = 'Content-Disposition: form-data; name="files[]"; filename="bomb/SKILL.md"\r\nContent-Type: text/markdown'
    body = f"--edge\r\n{part}\r\n\r\n{text}\r\n--edge--\r\n".encode()
    return target.ask("POST", "/v1/skills", ("multipart/form-data; boundary=edge", body), timeout=20)


def _inline(target: Target, text: str) -> tuple[int, object]:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("bomb/SKILL.md", text)
    source = {"type": "base64", "media_type": "application/zip", "data": base64.b64encode(packed.getvalue()).decode()}
    skill = {"type": "inline", "name": "bomb", "description": "d", "source": source}
    return target.ask("POST", "/v1/responses", turn("true", {"type": "container_auto", "skills": [skill]}), timeout=20)
