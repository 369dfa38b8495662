"""Solved problems on disk: their records, how they are made, read, summarised and examined."""
