"""The walls of boxes again, in those of an ordinary user: his mounts are made in a user namespace of their own."""

from pathlib import Path

import pytest

from tests.support.users import again_as_an_ordinary_user

_TESTS = Path(__file__).parents[2]


@pytest.mark.timeout(240)
def test_an_ordinary_users_boxes_have_the_same_walls() -> None:
    again_as_an_ordinary_user(
        *(str(Path(__file__).with_name(f"test_walls_of_{name}.py")) for name in ("programs", "files")),
        str(_TESTS / "workspace/test_walls.py"),
        "-k",
        "not without_walls",  # what leads somewhere without them is the same for every user
    )
