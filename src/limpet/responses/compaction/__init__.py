"""Compaction: a conversation that has grown too long for its model is replaced by less."""
