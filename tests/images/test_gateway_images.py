"""Images behind the gateway: containers keep theirs over restarts and other settings, models are told, errors stand at the start."""

import os
from pathlib import Path

import pytest

from limpet.core.errors import LimpetError
from tests.support.gateway import Gateway, running
from tests.support.homes import home_apart
from tests.support.image_files import config_of, layout_files, root_layer, write_archive, write_layout
from tests.support.images import image_without_bash, image_without_python
from tests.wire.asking import container_of, printed, run


def _settings(image: Path) -> str:
    return f'[features.shell]\ntype = "bubblewrap"\nimage = "{image}"\n'


def test_a_container_keeps_its_image_over_restarts_and_other_settings(tmp_path: Path) -> None:
    with home_apart() as apart:
        apart.mkdir()
        apart.chmod(0o755)
        layers = [root_layer(image_without_bash(apart / "first"))]
        first = write_archive(apart / "first.tar", layout_files(layers, config=config_of(layers, env=["STAGE=one"])))
        (image_without_python(apart / "root") / "etc/issue").write_text("of the second\n")
        second = write_layout(apart / "second", layout_files([root_layer(apart / "root")]))
        with running(tmp_path, config=_settings(first)) as gateway:
            begun = run(gateway.client(), "cat /etc/issue; echo $STAGE $0; echo kept > file")
            container = container_of(begun)
            gateway.stop()  # ends its boxes: the next command boots one
            gateway.config = _settings(second)
            gateway.start()
            after = run(gateway.client(), "cat file /etc/issue; echo $STAGE $0", container=container)
            assert printed(after) == "kept\nof the image\none /bin/sh\n"
            assert printed(run(gateway.client(), "cat /etc/issue; echo $0")) == "of the second\n/bin/bash\n"

    assert printed(begun) == "of the image\none /bin/sh\n"


@pytest.mark.parametrize(
    "image, words", [("./missing.tar", "No such file"), ("UP CASE", "neither a file or directory")]
)
def test_an_image_that_cannot_be_had_is_said_when_the_gateway_starts(tmp_path: Path, image: str, words: str) -> None:
    with home_apart() as home:
        gateway = Gateway(tmp_path, home=home, config=_settings(Path(image) if image[0] != "." else tmp_path / image))
        with pytest.raises((AssertionError, LimpetError), match=words):
            gateway.start()
        assert not (home / "images/roots").is_dir() or os.listdir(home / "images/roots") == []
