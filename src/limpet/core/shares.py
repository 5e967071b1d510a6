"""How much one holder may take of what all share. Pure."""


def may_take(*, held: int, taken: int, most: int, always: int) -> bool:
    """Whether a holder that has `held` gets one more while all together have `taken` of `most`: as long as it has less than is left for
    all others, so that none takes everything (alone it gets half), and `always` so many while there are any."""
    return taken < most and held < max(always, most - taken)
