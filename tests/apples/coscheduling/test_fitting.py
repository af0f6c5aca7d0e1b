"""Admission: programs that fit beside each other."""

from hypothesis import given, settings, strategies as st

from apples.coscheduling.fitting import duty_cycle, fit

DUTIES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8)
CPUS = st.integers(1, 8)

patient = settings(deadline=None, max_examples=50)


@patient
@given(DUTIES, DUTIES, CPUS)
def test_fit_of_exchanged_programs_is_exchanged(first, second, cpus):
    one, other = fit(first, second, cpus), fit(second, first, cpus)
    assert (one.first, one.second, one.fits) == (other.second, other.first, other.fits)


@patient
@given(DUTIES, DUTIES, CPUS)
def test_fit_makes_no_program_quicker(first, second, cpus):
    found = fit(first, second, cpus)
    assert min(found.first, found.second) >= 1.0


@patient
@given(DUTIES, DUTIES, CPUS, st.floats(0.0, 1.0))
def test_fit_with_less_need_stays_a_fit(first, second, cpus, part):
    less = fit(first, [part * duty for duty in second], cpus)
    assert less.first <= fit(first, second, cpus).first + 1e-9


@patient
@given(DUTIES, CPUS)
def test_program_without_computation_fits_beside_any(duties, cpus):
    assert fit(duties, [0.0], cpus).fits


def test_fit_needs_processors_that_suffice():
    assert not fit([1.0, 1.0], [1.0, 1.0], 2).fits
    assert fit([1.0, 1.0], [1.0, 1.0], 2).first == 2.0
    # The busy ranks of imbalanced programs are on the same processor, or not.
    assert not fit([1.0, 0.1], [1.0, 0.1], 2).fits
    assert fit([1.0, 0.1], [0.1, 1.0], 2).fits
    # Four ranks alone are too many for two processors already; the others wait behind them.
    crowded = fit([1.0] * 4, [0.2, 0.2], 2)
    assert (round(crowded.first, 9), round(crowded.second, 9)) == (1.1, 2.2)


def test_ranks_that_are_ready_at_the_same_moment_wait_for_each_other():
    assert round(fit([0.5], [0.4], 1).first, 9) == 1.2
    # The rank that computes less waits for the busiest one of its program anyway.
    assert fit([1.0, 0.4], [0.0, 0.5], 2).first == 1.0


def test_duty_cycle_of_a_process_that_did_nothing_is_unknown():
    assert duty_cycle(0.0, 0.0) is None
    assert duty_cycle(1.0, 3.0) == 0.25
