"""What may be seen: secrets in output, found and hidden before anything is stored, streamed or logged."""
