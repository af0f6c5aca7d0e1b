"""The mesh: how it is cut into slabs, how a slab lies in memory, and the exchange between neighbours."""
