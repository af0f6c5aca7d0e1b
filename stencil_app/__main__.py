"""`python -m stencil_app`: the same as the command `stencil-app`, as a rank of a run."""

import signal

# Until a run takes its signals over, an interrupt ends this rank on the spot. Leaving by way of an exception would
# print a traceback and then wait in MPI_Finalize for ranks that wait for this one.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from stencil_app.cli import main

if __name__ == "__main__":
    main()
