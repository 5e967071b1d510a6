"""The conformance suite: the same questions to every runtime, one promise per case. Shipped; needs no test framework."""
