"""Chat completions, for clients that know nothing else: a request becomes one of the Responses API, unstored and without a shell."""
