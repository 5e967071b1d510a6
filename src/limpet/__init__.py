"""Limpet."""
