"""A dipole in a glass rod between absorbing layers: planes of the grid are divided among the ranks at --cuts."""

import argparse

import meep as mp

parser = argparse.ArgumentParser()
parser.add_argument("--planes", type=int, default=60)
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--cuts", default="", help="fractions of the height, ascending, as in 0.3,0.6")
given = parser.parse_args()
cuts = [float(cut) for cut in given.cuts.split(",") if cut]

RESOLUTION = 10
height = given.planes / RESOLUTION
layout = None
if cuts:
    layout = mp.BinaryPartition(proc_id=len(cuts))
    for rank, cut in reversed(list(enumerate(cuts))):
        below = mp.BinaryPartition(proc_id=rank)
        layout = mp.BinaryPartition(split_dir=mp.Z, split_pos=(cut - 0.5) * height, left=below, right=layout)

simulation = mp.Simulation(
    cell_size=mp.Vector3(6, 6, height),
    resolution=RESOLUTION,
    boundary_layers=[mp.PML(0.5, direction=mp.X), mp.PML(0.5, direction=mp.Y)],
    geometry=[mp.Cylinder(radius=1, height=mp.inf, material=mp.Medium(epsilon=2.1))],
    sources=[mp.Source(mp.ContinuousSource(frequency=0.4), component=mp.Ex, center=mp.Vector3())],
    chunk_layout=layout,
)
simulation.init_sim()
for _ in range(given.steps):
    simulation.fields.step()
value = simulation.get_field_point(mp.Ex, mp.Vector3(0.3, 0.2, 0.4))
if mp.am_really_master():
    print(f"dipole: {given.steps} steps, field {value.real:.12e}")
