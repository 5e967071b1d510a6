"""Commands on this host, without isolation: only for those who ask for it by name."""
