import copy
import pickle

import pytest

from limpet.core.secret import Secret

KEY = "sk-canary-0123456789"


def test_no_way_of_showing_a_secret_shows_it() -> None:
    secret = Secret(KEY)
    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", "%s" % secret, repr({"key": secret})]  # noqa: UP031 - the old way too
    assert not any(KEY in text for text in shown)
    assert secret.reveal() == KEY


def test_a_secret_is_not_serialised() -> None:
    with pytest.raises(TypeError, match="never serialised"):
        pickle.dumps(Secret(KEY))
    with pytest.raises(TypeError, match="never serialised"):
        copy.deepcopy(Secret(KEY))


def test_equality_is_by_value_and_never_with_text() -> None:
    assert Secret(KEY) == Secret(KEY)
    assert Secret(KEY) != Secret("other")
    assert Secret(KEY) != KEY
    assert len({Secret(KEY), Secret(KEY)}) == 1
