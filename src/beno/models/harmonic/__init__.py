"""The harmonic operator: its kernel is a known one times what a network learns."""
