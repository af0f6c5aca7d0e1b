"""The command `nws` as `python -m nws.cli`, for systems where its script is not on the path."""

from nws.cli import main

main()
