"""The networks, one a file, each with its configuration beside it."""
