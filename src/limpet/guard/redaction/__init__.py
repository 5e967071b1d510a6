"""Redaction: secrets in output are found and hidden before anything is stored, streamed or logged."""
