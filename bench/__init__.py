"""Measurements, each beside its bare floor or a peer, in the same run and by turns, so that the ratio survives a busy machine."""
