"""The application: iterative MPI stencil codes whose slabs may have uneven height."""
