"""The vocabulary of Limpet: errors, ids, time, commands, events and the ports. Imports no other part of Limpet."""
