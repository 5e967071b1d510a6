"""The words of Limpet: errors, ids, time, commands, events and the ports. Imports nothing of ours."""
