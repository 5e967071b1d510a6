"""How many connections to ports a tenant may have beside the others."""

from limpet.containers.port_access import ALWAYS_OF_A_TENANT, MOST_OF_ALL, MOST_OF_ONE, may_connect


def taken(tenants: int) -> list[int]:
    """What each tenant gets that takes all that it can, one after the other."""
    have: list[int] = []
    for _ in range(tenants):
        mine = 0
        while may_connect(of_container=mine % MOST_OF_ONE, of_tenant=mine, of_all=sum(have) + mine):
            mine += 1
        have.append(mine)
    return have


def test_a_tenant_cannot_take_the_connections_of_all() -> None:
    assert taken(1) == [MOST_OF_ALL // 2]
    assert taken(4) == [256, 128, 64, 64]
    assert sum(taken(20)) == MOST_OF_ALL


def test_a_container_has_a_bound_of_its_own() -> None:
    assert not may_connect(of_container=MOST_OF_ONE, of_tenant=MOST_OF_ONE, of_all=MOST_OF_ONE)
    assert may_connect(of_container=0, of_tenant=ALWAYS_OF_A_TENANT - 1, of_all=MOST_OF_ALL - 1)
