! Let AppLeS follow an MPI program and move rows between its ranks while it runs (see apples.h).
!
!     type(apples_run) :: run
!     call apples_begin(run, MPI_COMM_WORLD, rows)        ! mpi_f08: MPI_COMM_WORLD%MPI_VAL
!     do i = 1, n
!        call apples_exchange(run)                        ! messages from here on
!        call apples_compute(run)                         ! the rank's own work from here on
!        if (apples_step(run, i, n - i)) then
!           call apples_move(run, u, ghosts)              ! each array, real(8), allocatable; rows are its last dimension
!           call apples_moved(run)
!           rows = run%rows
!        end if
!     end do
!     call apples_end(run)
!
! With run%leave = .true. after apples_begin, ranks may leave while the run goes on. All messages of the program must then
! be on run%comm, with run%rank and run%ranks, which apples_moved changes.
module apples
  use iso_c_binding, only: c_ptr, c_int, c_long, c_size_t, c_double
  implicit none
  private
  public :: apples_run, apples_begin, apples_exchange, apples_compute, apples_step, apples_move, apples_moved, apples_end

  type apples_run
     type(c_ptr), private :: handle
     integer :: rows = 0, first = 0, comm = 0, rank = 0, ranks = 0
     logical :: leave = .false.
  end type apples_run

  interface
     function c_begin(comm, rows) bind(C, name="apples_f_begin") result(handle)
       import :: c_ptr, c_int, c_long
       integer(c_int), value :: comm
       integer(c_long), value :: rows
       type(c_ptr) :: handle
     end function c_begin
     subroutine c_exchange(handle) bind(C, name="apples_f_exchange")
       import :: c_ptr
       type(c_ptr), value :: handle
     end subroutine c_exchange
     subroutine c_compute(handle) bind(C, name="apples_f_compute")
       import :: c_ptr
       type(c_ptr), value :: handle
     end subroutine c_compute
     function c_step(handle, iteration, left, leave) bind(C, name="apples_f_step") result(moves)
       import :: c_ptr, c_int, c_long
       type(c_ptr), value :: handle
       integer(c_long), value :: iteration, left
       integer(c_int), value :: leave
       integer(c_int) :: moves
     end function c_step
     function c_next(handle) bind(C, name="apples_f_next") result(rows)
       import :: c_ptr, c_long
       type(c_ptr), value :: handle
       integer(c_long) :: rows
     end function c_next
     subroutine c_move(handle, planes, made, plane_bytes, ghosts) bind(C, name="apples_f_move")
       import :: c_ptr, c_int, c_size_t, c_double
       type(c_ptr), value :: handle
       real(c_double), intent(in) :: planes(*)
       real(c_double), intent(inout) :: made(*)
       integer(c_size_t), value :: plane_bytes
       integer(c_int), value :: ghosts
     end subroutine c_move
     subroutine c_moved(handle) bind(C, name="apples_f_moved")
       import :: c_ptr
       type(c_ptr), value :: handle
     end subroutine c_moved
     subroutine c_state(handle, pieces, ranks) bind(C, name="apples_f_state")
       import :: c_ptr, c_int, c_long
       type(c_ptr), value :: handle
       integer(c_long), intent(out) :: pieces(2)
       integer(c_int), intent(out) :: ranks(3)
     end subroutine c_state
     subroutine c_end(handle) bind(C, name="apples_f_end")
       import :: c_ptr
       type(c_ptr), value :: handle
     end subroutine c_end
  end interface

  interface apples_move
     module procedure move_1, move_2, move_3, move_4
  end interface apples_move

contains

  subroutine apples_begin(run, comm, rows)
    type(apples_run), intent(out) :: run
    integer, intent(in) :: comm, rows
    run%handle = c_begin(int(comm, c_int), int(rows, c_long))
    call take(run)
  end subroutine apples_begin

  subroutine take(run)
    type(apples_run), intent(inout) :: run
    integer(c_long) :: pieces(2)
    integer(c_int) :: ranks(3)
    call c_state(run%handle, pieces, ranks)
    run%rows = int(pieces(1))
    run%first = int(pieces(2))
    run%comm = ranks(1)
    run%rank = ranks(2)
    run%ranks = ranks(3)
  end subroutine take

  subroutine apples_exchange(run)
    type(apples_run), intent(in) :: run
    call c_exchange(run%handle)
  end subroutine apples_exchange

  subroutine apples_compute(run)
    type(apples_run), intent(in) :: run
    call c_compute(run%handle)
  end subroutine apples_compute

  ! left: iterations that are left, -1 if unknown
  logical function apples_step(run, iteration, left)
    type(apples_run), intent(in) :: run
    integer, intent(in) :: iteration, left
    apples_step = c_step(run%handle, int(iteration, c_long), int(left, c_long), &
                         merge(1_c_int, 0_c_int, run%leave)) /= 0
  end function apples_step

  subroutine apples_moved(run)
    type(apples_run), intent(inout) :: run
    call c_moved(run%handle)
    call take(run)
  end subroutine apples_moved

  subroutine apples_end(run)
    type(apples_run), intent(in) :: run
    call c_end(run%handle)
  end subroutine apples_end

  subroutine move_1(run, array, ghosts)
    type(apples_run), intent(in) :: run
    real(c_double), allocatable, intent(inout) :: array(:)
    integer, intent(in) :: ghosts
    real(c_double), allocatable :: made(:)
    integer :: low, high
    low = lbound(array, 1)
    high = low + int(c_next(run%handle)) + 2 * ghosts - 1
    allocate(made(low:high))
    made = 0
    call c_move(run%handle, array, made, 8 * (size(array, kind=c_size_t) / size(array, 1, kind=c_size_t)), int(ghosts, c_int))
    call move_alloc(made, array)
  end subroutine move_1

  subroutine move_2(run, array, ghosts)
    type(apples_run), intent(in) :: run
    real(c_double), allocatable, intent(inout) :: array(:,:)
    integer, intent(in) :: ghosts
    real(c_double), allocatable :: made(:,:)
    integer :: low, high
    low = lbound(array, 2)
    high = low + int(c_next(run%handle)) + 2 * ghosts - 1
    allocate(made(lbound(array, 1):ubound(array, 1), &
                  low:high))
    made = 0
    call c_move(run%handle, array, made, 8 * (size(array, kind=c_size_t) / size(array, 2, kind=c_size_t)), int(ghosts, c_int))
    call move_alloc(made, array)
  end subroutine move_2

  subroutine move_3(run, array, ghosts)
    type(apples_run), intent(in) :: run
    real(c_double), allocatable, intent(inout) :: array(:,:,:)
    integer, intent(in) :: ghosts
    real(c_double), allocatable :: made(:,:,:)
    integer :: low, high
    low = lbound(array, 3)
    high = low + int(c_next(run%handle)) + 2 * ghosts - 1
    allocate(made(lbound(array, 1):ubound(array, 1), &
                  lbound(array, 2):ubound(array, 2), &
                  low:high))
    made = 0
    call c_move(run%handle, array, made, 8 * (size(array, kind=c_size_t) / size(array, 3, kind=c_size_t)), int(ghosts, c_int))
    call move_alloc(made, array)
  end subroutine move_3

  subroutine move_4(run, array, ghosts)
    type(apples_run), intent(in) :: run
    real(c_double), allocatable, intent(inout) :: array(:,:,:,:)
    integer, intent(in) :: ghosts
    real(c_double), allocatable :: made(:,:,:,:)
    integer :: low, high
    low = lbound(array, 4)
    high = low + int(c_next(run%handle)) + 2 * ghosts - 1
    allocate(made(lbound(array, 1):ubound(array, 1), &
                  lbound(array, 2):ubound(array, 2), &
                  lbound(array, 3):ubound(array, 3), &
                  low:high))
    made = 0
    call c_move(run%handle, array, made, 8 * (size(array, kind=c_size_t) / size(array, 4, kind=c_size_t)), int(ghosts, c_int))
    call move_alloc(made, array)
  end subroutine move_4

end module apples
