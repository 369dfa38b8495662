"""What is to be solved: an operator L = (domain, law, walls), its right-hand side (f, g), and the solution."""
