"""How wrong an operator is, in numbers and in pictures."""
