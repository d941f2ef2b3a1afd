"""Plots by matplotlib, the extra `plot`. Callers describe a `Plot`; this room alone draws and saves."""
