"""The HLLD approximate Riemann solver of Miyoshi and Kusano (2005), for a row of faces at once.

Five waves leave a face: two fast shocks (speeds sl, sr), two Alfvén waves and the contact (sm), so that four
states lie between left and right::

        sl   sal    sm    sar   sr          U*:  between fast and Alfvén wave (their eqs 43-48)
          \\    \\    |    /    /            U**: between Alfvén wave and contact (eqs 59-63)
       U_l \\ U*l\\U**l|U**r/U*r / U_r

The flux is written without branches, which is what lets the compiler take four or eight faces at a time: on the
side of the contact that the face lies on, F = F_K + s_k (U* - U) + s_a (U** - U*), where a wave that does not
cross the face has speed 0. Nothing here knows where the rows come from.
"""

from __future__ import annotations

from math import copysign, sqrt

from stencil_app.jit import row_kernel
from stencil_app.layout import Array

#: Faces in one piece of a row; a literal, so that the compiler sees that the lanes of a `Faces` array never overlap.
PIECE = 520

#: Lanes of left and right states: density, velocity normal and transverse, pressure, transverse field.
RHO, VN, VT, VS, P, BT, BS = (PIECE * lane for lane in range(7))
#: Lanes of fluxes: mass, momenta, energy, the two electric fields, and the weight of the left cell in upwinding.
F_RHO, F_MN, F_MT, F_MS, F_E, F_ET, F_ES, F_W = (PIECE * lane for lane in range(8))
STATE_LANES, FLUX_LANES = 7, 8

_DEGENERATE = 1e-8
#: How steeply the upwind weight turns with the mass flux: a hard switch would amplify round-off where it vanishes.
_RAMP = 1024.0


@row_kernel
def hlld(left: Array, right: Array, normal_b: Array, flux: Array, gas: tuple[float, float], n: int) -> None:
    """Fluxes through faces 0..n-1.

    left, right : float64[7 PIECE], states in lanes RHO, VN, VT, VS, P, BT, BS (n, t, s: a right-handed frame)
    normal_b : float64[>= n], field through each face
    flux : float64[8 PIECE], lanes F_RHO ... F_W; electric fields along t and s, E = -v × B
    gas : adiabatic index, Δt / Δx (for the upwind weight)
    """
    gamma, dt_dx = gas
    for i in range(n):
        bn = normal_b[i]
        bn2 = bn * bn
        # Fast speeds of both sides (their eq. 3) and the outer waves (eq. 67).
        rl, ul, tl, zl, pl, btl, bsl = (
            left[RHO + i],
            left[VN + i],
            left[VT + i],
            left[VS + i],
            left[P + i],
            left[BT + i],
            left[BS + i],
        )
        rr, ur, tr, zr, pr, btr, bsr = (
            right[RHO + i],
            right[VN + i],
            right[VT + i],
            right[VS + i],
            right[P + i],
            right[BT + i],
            right[BS + i],
        )
        al, ar = gamma * pl, gamma * pr
        cross_l, cross_r = btl * btl + bsl * bsl, btr * btr + bsr * bsr
        gap_l, gap_r = bn2 + cross_l - al, bn2 + cross_r - ar
        fast_l = sqrt(0.5 * (bn2 + cross_l + al + sqrt(gap_l * gap_l + 4.0 * al * cross_l)) / rl)
        fast_r = sqrt(0.5 * (bn2 + cross_r + ar + sqrt(gap_r * gap_r + 4.0 * ar * cross_r)) / rr)
        sl, sr = min(ul - fast_l, ur - fast_r), max(ul + fast_l, ur + fast_r)
        ptl, ptr = pl + 0.5 * (bn2 + cross_l), pr + 0.5 * (bn2 + cross_r)
        # Contact speed, total pressure and densities between the fast waves (eqs 38, 41, 43).
        dl, dr = rl * (sl - ul), rr * (sr - ur)
        sm = (dr * ur - dl * ul - ptr + ptl) / (dr - dl)
        pts = 0.5 * (ptl + dl * (sm - ul) + ptr + dr * (sm - ur))
        inv_l, inv_r = 1.0 / (sl - sm), 1.0 / (sr - sm)
        rsl, rsr = dl * inv_l, dr * inv_r
        root_l, root_r = sqrt(rsl), sqrt(rsr)
        # Transverse velocity and field behind the fast waves (eqs 44-47).
        den_l, den_r = dl * (sl - sm) - bn2, dr * (sr - sm) - bn2
        solid_l, solid_r = abs(den_l) >= _DEGENERATE * pts, abs(den_r) >= _DEGENERATE * pts
        den_l, den_r = 1.0 / (den_l if solid_l else 1.0), 1.0 / (den_r if solid_r else 1.0)
        turn_l, turn_r = bn * (sm - ul) * den_l, bn * (sm - ur) * den_r
        grow_l, grow_r = (dl * (sl - ul) - bn2) * den_l, (dr * (sr - ur) - bn2) * den_r
        turn_l, turn_r = turn_l if solid_l else 0.0, turn_r if solid_r else 0.0
        grow_l, grow_r = grow_l if solid_l else 1.0, grow_r if solid_r else 1.0
        tsl, zsl, btsl, bssl = tl - btl * turn_l, zl - bsl * turn_l, btl * grow_l, bsl * grow_l
        tsr, zsr, btsr, bssr = tr - btr * turn_r, zr - bsr * turn_r, btr * grow_r, bsr * grow_r
        # Between the Alfvén waves (eqs 59-62).
        sign = copysign(1.0, bn)
        inv = 1.0 / (root_l + root_r)
        both = sign * root_l * root_r
        tss = inv * (root_l * tsl + root_r * tsr + sign * (btsr - btsl))
        zss = inv * (root_l * zsl + root_r * zsr + sign * (bssr - bssl))
        btss = inv * (root_l * btsr + root_r * btsl + both * (tsr - tsl))
        bsss = inv * (root_l * bssr + root_r * bssl + both * (zsr - zsl))
        # From here on only the side of the contact that the face lies on.
        here = sm >= 0.0
        r, u, t, z, p = (
            rl if here else rr,
            ul if here else ur,
            tl if here else tr,
            zl if here else zr,
            pl if here else pr,
        )
        bt, bs, pt = btl if here else btr, bsl if here else bsr, ptl if here else ptr
        rs, ts, zs = rsl if here else rsr, tsl if here else tsr, zsl if here else zsr
        bts, bss, root = btsl if here else btsr, bssl if here else bssr, root_l if here else root_r
        s, inv_s, side = sl if here else sr, inv_l if here else inv_r, 1.0 if here else -1.0
        # A wave that runs to the other side does not cross the face: min(s, 0) left of it, max(s, 0) right of it.
        sk = side * min(side * s, 0.0)
        sa = side * min(side * sm - abs(bn) / root, 0.0)
        e = p / (gamma - 1.0) + 0.5 * (r * (u * u + t * t + z * z) + bn2 + bt * bt + bs * bs)
        vb, vbs, vbss = (
            u * bn + t * bt + z * bs,
            sm * bn + ts * bts + zs * bss,
            sm * bn + tss * btss + zss * bsss,
        )
        es = ((s - u) * e - pt * u + pts * sm + bn * (vb - vbs)) * inv_s
        mass = r * u
        flow = mass + sk * (rs - r)
        flux[F_RHO + i] = flow
        flux[F_MN + i] = mass * u + pt - bn2 + sk * (rs * sm - mass)
        flux[F_MT + i] = mass * t - bn * bt + sk * (rs * ts - r * t) + sa * rs * (tss - ts)
        flux[F_MS + i] = mass * z - bn * bs + sk * (rs * zs - r * z) + sa * rs * (zss - zs)
        flux[F_E + i] = u * (e + pt) - bn * vb + sk * (es - e) - sa * side * root * sign * (vbs - vbss)
        flux[F_ES + i] = -(u * bt - bn * t + sk * (bts - bt) + sa * (btss - bts))
        flux[F_ET + i] = u * bs - bn * z + sk * (bss - bs) + sa * (bsss - bss)
        flux[F_W + i] = 0.5 + max(-0.5, min(0.5, _RAMP * dt_dx * flow / (rl + rr)))
