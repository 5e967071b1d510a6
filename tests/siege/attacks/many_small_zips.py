"""Six skills in one request, each a small zip that unpacks to very much"""

import base64
import io
import zipfile

from tests.siege.attack import Target, turn

SECONDS = 5.0


def attack(target: Target) -> None:
    skills = [_skill(number) for number in range(6)]
    while True:
        target.ask("POST", "/v1/responses", turn("true", {"type": "container_auto", "skills": skills}), timeout=60)


def _skill(number: int) -> dict[str, object]:
    """About 190 MB of zeros and of text that compresses a thousandfold."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"s{number}/SKILL.md", f"---\nname: s{number}\ndescription: d\n---\ntext\n")
        for part in range(19):
            archive.writestr(f"s{number}/{part}", bytes(10_000_000))
    source = {"type": "base64", "media_type": "application/zip", "data": base64.b64encode(packed.getvalue()).decode()}
    return {"type": "inline", "name": f"s{number}", "description": "d", "source": source}
