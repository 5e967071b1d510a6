"""Requests on their way to other gateways: a tenant has a share of them, and all together have an end."""

from contextlib import ExitStack

import pytest

from limpet.server.forward_shares import MOST_OF_TENANT, MOST_OPEN, ForwardsExhausted, ForwardShares


def test_a_tenant_with_its_share_leaves_room_for_others_and_gives_it_back() -> None:
    shares = ForwardShares()
    with ExitStack() as greedy:
        for _ in range(MOST_OF_TENANT):
            greedy.enter_context(shares.held("greedy"))
        with pytest.raises(ForwardsExhausted) as refused, shares.held("greedy"):
            pass
        assert (refused.value.status, refused.value.code) == (503, "too_many_forwarded_of_tenant")
        with shares.held("other"):
            pass
    with shares.held("greedy"):
        pass


def test_all_tenants_together_have_an_end() -> None:
    shares = ForwardShares()
    with ExitStack() as all_of_them:
        for number in range(MOST_OPEN):
            all_of_them.enter_context(shares.held(f"tenant {number}"))
        with pytest.raises(ForwardsExhausted) as refused, shares.held("one more"):
            pass
        assert refused.value.code == "too_many_forwarded"
