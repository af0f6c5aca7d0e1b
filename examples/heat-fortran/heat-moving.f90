! heat.f90 with rows that move between the ranks while it runs.
program heat
   use mpi
   use apples
   implicit none
   integer :: rank, ranks, error, nx, ny, steps, mine, first, i, j, s, up, down
   integer, allocatable :: rows(:)
   double precision, allocatable :: now(:, :), next(:, :), swap(:, :)
   double precision :: highest, all
   character(len=65536) :: text
   type(apples_run) :: run
   call MPI_Init(error)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
   call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
   nx = argument(1, 1000); ny = argument(2, 64); steps = argument(3, 100)
   allocate (rows(0:ranks - 1))
   rows = [(ny/ranks + merge(1, 0, i < mod(ny, ranks)), i=0, ranks - 1)]
   call get_environment_variable('HEAT_ROWS', text)
   if (len_trim(text) > 0) read (text, *) rows
   mine = rows(rank); first = sum(rows(0:rank - 1))
   allocate (now(0:nx + 1, 0:mine + 1), next(0:nx + 1, 0:mine + 1))
   now = 0; next = 0
   do j = 1, mine
      now(1:nx, j) = [(1d0/(1 + mod(first + j, 17) + mod(i, 13)), i=1, nx)]
   end do
   call apples_begin(run, MPI_COMM_WORLD, mine)
   run%leave = .true.
   do s = 1, steps
      call apples_exchange(run)
      up = merge(run%rank - 1, MPI_PROC_NULL, run%rank > 0)
      down = merge(run%rank + 1, MPI_PROC_NULL, run%rank < run%ranks - 1)
      call MPI_Sendrecv(now(0, 1), nx + 2, MPI_DOUBLE_PRECISION, up, 0, now(0, mine + 1), nx + 2, &
                        MPI_DOUBLE_PRECISION, down, 0, run%comm, MPI_STATUS_IGNORE, error)
      call MPI_Sendrecv(now(0, mine), nx + 2, MPI_DOUBLE_PRECISION, down, 1, now(0, 0), nx + 2, &
                        MPI_DOUBLE_PRECISION, up, 1, run%comm, MPI_STATUS_IGNORE, error)
      call apples_compute(run)
      do j = 1, mine
         do i = 1, nx
            next(i, j) = 0.6d0*now(i, j) + 0.1d0*(now(i - 1, j) + now(i + 1, j) + now(i, j - 1) + now(i, j + 1))
         end do
      end do
      call move_alloc(now, swap); call move_alloc(next, now); call move_alloc(swap, next)
      if (apples_step(run, s, steps - s)) then
         call apples_move(run, now, 1)
         call apples_move(run, next, 1)
         call apples_moved(run)
         mine = run%rows
      end if
   end do
   highest = maxval(now(1:nx, 1:mine))
   call MPI_Reduce(highest, all, 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, run%comm, error)
   if (run%rank == 0) print '(a, i0, a, es22.15)', 'heat: ', steps, ' steps, highest ', all
   call apples_end(run)
   call MPI_Finalize(error)
contains
   integer function argument(number, default)
      integer, intent(in) :: number, default
      character(len=32) :: word
      call get_command_argument(number, word)
      argument = default
      if (len_trim(word) > 0) read (word, *) argument
   end function
end program
