"""`python -m beno`, for launchers such as torchrun."""

from beno.cli import main

if __name__ == "__main__":
    main()
