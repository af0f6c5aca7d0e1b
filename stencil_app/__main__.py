"""`python -m stencil_app`: the same as the command `stencil-app`."""

from stencil_app.cli import main

if __name__ == "__main__":
    main()
