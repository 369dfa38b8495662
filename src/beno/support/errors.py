"""The one exception that users are meant to see."""


class BenoError(ValueError):
    """Something the user gave cannot be used; the message says what, where, and what would be right."""
