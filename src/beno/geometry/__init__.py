"""Domains and their boundaries: points inside, panels around."""
