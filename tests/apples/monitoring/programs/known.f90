! known PATTERN ITERATIONS MICROSECONDS, as known.c, through Fortran's "use mpi".
program known
  use mpi
  use, intrinsic :: iso_fortran_env, only: real64, int64
  implicit none
  integer :: rank, ranks, error, i, iterations, left, right, calls, events, requests(2), status(MPI_STATUS_SIZE)
  real(real64) :: microseconds, cpu_s, comm_s, before, mark, outgoing, incoming, total
  character(len=32) :: asked, pattern, word
  character(len=8), parameter :: patterns(0:3) = ['ring    ', 'halo    ', 'reduce  ', 'barrier ']

  call get_command_argument(1, asked)
  call get_command_argument(2, word)
  read (word, *) iterations
  call get_command_argument(3, word)
  read (word, *) microseconds
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  left = mod(rank + ranks - 1, ranks)
  right = mod(rank + 1, ranks)
  if (asked == 'uneven') microseconds = microseconds * (1 + mod(rank, 2))
  outgoing = rank
  cpu_s = 0
  comm_s = 0
  call MPI_Barrier(MPI_COMM_WORLD, error)
  calls = 1
  events = 1
  mark = clock_s(3)
  do i = 1, iterations
    pattern = asked
    if (asked == 'all') pattern = patterns(mod(i, 4))
    cpu_s = cpu_s + (work(mark, 1e-6_real64 * microseconds) - mark)
    before = clock_s(1)
    select case (trim(pattern))
    case ('ring', 'uneven')
      call MPI_Sendrecv(outgoing, 1, MPI_DOUBLE_PRECISION, right, 1, incoming, 1, MPI_DOUBLE_PRECISION, left, 1, &
                        MPI_COMM_WORLD, status, error)
      if (status(MPI_SOURCE) /= left .or. nint(incoming) /= left) error stop 'the ring brought the wrong number'
      call MPI_Sendrecv(outgoing, 1, MPI_DOUBLE_PRECISION, left, 2, incoming, 1, MPI_DOUBLE_PRECISION, right, 2, &
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
      calls = calls + 2
    case ('halo')
      call MPI_Irecv(incoming, 1, MPI_DOUBLE_PRECISION, left, 3, MPI_COMM_WORLD, requests(1), error)
      call MPI_Isend(outgoing, 1, MPI_DOUBLE_PRECISION, right, 3, MPI_COMM_WORLD, requests(2), error)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
      if (nint(incoming) /= left) error stop 'the halo is wrong'
      calls = calls + 3
    case ('reduce')
      total = outgoing
      call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
      if (nint(total) /= ranks * (ranks - 1) / 2) error stop 'the sum is wrong'
      calls = calls + 1
    case default
      call MPI_Barrier(MPI_COMM_WORLD, error)
      calls = calls + 1
    end select
    comm_s = comm_s + clock_s(1) - before
    mark = clock_s(3)
    events = events + 1
  end do
  print '(i0,1x,f0.9,1x,f0.9,1x,i0,1x,i0)', rank, cpu_s, comm_s, events, calls
  flush (6)
  call MPI_Finalize(error)

contains

  ! CLOCK_MONOTONIC is 1, CLOCK_THREAD_CPUTIME_ID is 3.
  real(real64) function clock_s(which)
    use, intrinsic :: iso_c_binding
    integer, intent(in) :: which
    integer(c_long) :: time(2)
    integer(c_int) :: done
    interface
      integer(c_int) function clock_gettime(clock, time) bind(c)
        import :: c_int, c_long
        integer(c_int), value :: clock
        integer(c_long), intent(out) :: time(2)
      end function
    end interface
    done = clock_gettime(int(which, c_int), time)
    clock_s = real(time(1), real64) + 1e-9_real64 * real(time(2), real64)
  end function

  ! Compute for so long by the thread's own CPU clock, counted from `from`; says when it was over.
  real(real64) function work(from, seconds)
    real(real64), intent(in) :: from, seconds
    work = from
    do while (work < from + seconds)
      work = clock_s(3)
    end do
  end function
end program
