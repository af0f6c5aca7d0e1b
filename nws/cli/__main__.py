"""`python -m nws.cli`: the command `nws` where its script is not on the path."""

from nws.cli import main

main()
