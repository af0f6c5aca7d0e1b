"""What MPI programs do with their time, measured from outside and without changing them."""
