"""Finding one's own group: containers, both versions, mounts that show a part of the hierarchy."""

import pytest


def quota(directory, cpus):
    (directory / "cpu.max").write_text(f"{int(cpus * 100_000)} 100000\n")


def test_no_cgroups_no_limits(host):
    assert host.cgroups().cpu_limits() == []
    assert host.cgroups().memory_limits() == []


def test_level_up_to_the_mount(host):
    group = host.control_group("/a/b/c", version=2)
    quota(group, 3)
    quota(group.parent.parent, 2)
    quota(host.sys, 1.5)
    limits = host.cgroups().cpu_limits()
    assert [(limit.group, limit.cpus) for limit in limits] == [("/a/b/c", 3), ("/a", 2), ("/", 1.5)]


def test_container_sees_its_own_group_as_the_mount(host):
    """Version 1 without a cgroup namespace: the path is the host's, the mount shows only our part."""
    group = host.control_group("/docker/f00", version=1, root="/docker/f00")
    assert group == host.sys
    (group / "cpu.cfs_quota_us").write_text("150000\n")
    (group / "cpu.cfs_period_us").write_text("100000\n")
    (limit,) = host.cgroups().cpu_limits()
    assert (limit.group, limit.cpus) == ("/docker/f00", 1.5)


def test_path_the_mount_does_not_show_is_the_mount_itself(host):
    group = host.control_group("/", version=2)
    (host.proc / "self" / "cgroup").write_text("0::/../outside\n")
    quota(group, 0.5)
    assert [limit.cpus for limit in host.cgroups().cpu_limits()] == [0.5]


@pytest.mark.parametrize("text", ["max 100000\n", "", "50000\n"])
def test_what_is_no_quota_of_version_2(host, text):
    (host.control_group("/job", version=2) / "cpu.max").write_text(text)
    assert host.cgroups().cpu_limits() == []


def test_no_quota_of_version_1_is_minus_one(host):
    group = host.control_group("/job", version=1)
    (group / "cpu.cfs_quota_us").write_text("-1\n")
    (group / "cpu.cfs_period_us").write_text("100000\n")
    assert host.cgroups().cpu_limits() == []


def test_usage_is_told_in_seconds(host):
    group = host.control_group("/job", version=2)
    quota(group, 1)
    (group / "cpu.stat").write_text("usage_usec 2500000\nnr_periods 5\n")
    assert host.cgroups().cpu_limits()[0].usage_s == 2.5


def test_mount_point_with_a_blank(host, tmp_path):
    group = host.control_group("/", version=2, mount="/my\\040cgroups")
    quota(group, 1)
    seen = []

    def relocate(mount):
        seen.append(str(mount))
        return host.sys

    from nws.sensors.cgrouplimits import Cgroups

    assert len(Cgroups(host.proc / "self", relocate=relocate).cpu_limits()) == 1
    assert seen == ["/my cgroups"]


def test_groups_compete_where_the_cpu_controller_manages_them(host):
    group = host.control_group("/user/job", version=2)
    cgroups = host.cgroups()
    assert cgroups.cpu_groups({"": "/user/job"}) == ()
    (group.parent / "cpu.weight").write_text("25\n")
    (group.parent / "cpu.max").write_text("50000 100000\n")
    (group / "cpu.weight").write_text("100\n")
    (group / "cpu.idle").write_text("1\n")
    user, job = cgroups.cpu_groups({"": "/user/job"})
    assert (user.name, user.weight, user.cpus) == ("/user", 256.0, 0.5)
    assert (job.name, job.weight, job.cpus) == ("/user/job", 3.0, float("inf"))
    assert cgroups.cpu_groups({"": "/"}) == ()


def test_group_of_version_1_has_its_shares_and_the_root_none(host):
    group = host.control_group("/batch", version=1)
    for directory in (group, group.parent):
        (directory / "cpu.shares").write_text("2048\n")
    (found,) = host.cgroups().cpu_groups({"cpu": "/batch"})
    assert (found.name, found.weight) == ("/batch", 2048.0)
    assert host.cgroups().cpu_groups({"cpu": "/"}) == ()


def test_cgroups_in_a_container_show_the_weight_of_their_root(host):
    group = host.control_group("/", version=1)
    (group / "cpu.shares").write_text("8192\n")
    namespace = host.proc / "self" / "ns" / "cgroup"
    namespace.parent.mkdir()
    namespace.symlink_to("cgroup:[4026532327]")
    (found,) = host.cgroups().cpu_groups({"cpu": "/"})
    assert found.weight == 8192.0
    namespace.unlink()
    namespace.symlink_to("cgroup:[4026531835]")
    assert host.cgroups().cpu_groups({"cpu": "/"}) == ()
