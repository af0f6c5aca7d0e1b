"""Algorithm 2: what a process has to show to become CS, F or DC, and when it is judged."""

import math

import pytest
from hypothesis import given, strategies as st

from apples.coscheduling.classes import Classification, FcsConstants, MonitorCounts, ProcessClass, reclassify
from apples.errors import ConfigError
from tests.transcripts import recorded

CS, F, DC = ProcessClass.CS, ProcessClass.F, ProcessClass.DC
QUICK = FcsConstants(cslots_min=1)


def judged(cpu_s, comm_s, *, count=1000, constants=QUICK, standing=None):
    standing = standing or Classification()
    reclassify(standing, MonitorCounts(cpu_s * count, comm_s * count, count), constants)
    return standing.process_class


@recorded("apples/coscheduling/phases.txt", "cpu_s", "comm_s")
def test_phase_diagram_of_the_paper(answered, cpu_s, comm_s):
    answered(judged(cpu_s, comm_s).name)


def test_process_that_never_communicates_is_dc():
    standing = Classification()
    reclassify(standing, MonitorCounts(t_cpu_s=2.0), QUICK)
    assert standing.process_class is DC


def test_process_that_did_not_run_is_not_judged():
    standing = Classification()
    reclassify(standing, MonitorCounts(), QUICK)
    assert standing.process_class is CS


def test_nobody_is_judged_before_twenty_slots():
    standing = Classification()
    for slot in range(1, 20):
        reclassify(standing, MonitorCounts(0.1 * slot), FcsConstants())
        assert standing.process_class is CS
    reclassify(standing, MonitorCounts(2.0), FcsConstants())
    assert (standing.process_class, standing.cslots, standing.tslots) == (DC, 0, 20)


def test_measurements_count_from_the_change_of_class():
    standing = Classification()
    reclassify(standing, MonitorCounts(t_cpu_s=10.0), QUICK)
    # Fine-grained since then, though coarse over its life.
    reclassify(standing, MonitorCounts(10.9, 0.1, 1000), QUICK)
    assert standing.process_class is CS


def test_after_its_age_a_process_is_cs_again_and_measured_anew():
    constants = FcsConstants(cslots_min=1, tslots_max=3)
    standing = Classification()
    for slot in (1, 2):
        reclassify(standing, MonitorCounts(float(slot)), constants)
    assert standing.process_class is DC
    reclassify(standing, MonitorCounts(3.0), constants)
    assert (standing.process_class, standing.mark, standing.cslots) == (CS, MonitorCounts(3.0), 0)


@given(
    cpu_s=st.floats(1e-7, 10.0),
    comm_s=st.floats(0.0, 10.0),
    scale=st.integers(1, 10**6),
)
def test_class_depends_on_means_alone(cpu_s, comm_s, scale):
    once, often = judged(cpu_s, comm_s, count=1), judged(cpu_s, comm_s, count=scale)
    near = any(
        math.isclose(value, limit, rel_tol=1e-9)
        for value, limit in [
            (cpu_s + comm_s, QUICK.cs_thresh_s),
            (cpu_s + comm_s, QUICK.dc_thresh_s),
            (cpu_s, QUICK.f_thresh_s),
        ]
    )
    assert once is often or near


def test_constants_out_of_range_are_all_named():
    with pytest.raises(ConfigError) as error:
        FcsConstants(slice_s=0, cslots_min=0, spin_s=math.nan)
    assert error.value.problems == (
        "slice_s is 0, legal is a finite number above 0",
        "spin_s is nan, legal is a finite number above 0",
        "cslots_min is 0, legal is a whole number from 1",
    )
    with pytest.raises(ConfigError, match=r"cs_thresh_s is 2, legal is less than dc_thresh_s \(1\)"):
        FcsConstants(cs_thresh_s=2.0)
