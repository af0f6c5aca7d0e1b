r"""The HLLD approximate Riemann solver of Miyoshi and Kusano (2005), for a row of faces at once.

Five waves leave a face: two fast shocks (speeds sl, sr), two Alfvén waves and the contact (sm), so that four
states lie between left and right::

        sl   sal    sm    sar   sr          U*:  between fast and Alfvén wave (their eqs 43-48)
          \    \    |    /    /            U**: between Alfvén wave and contact (eqs 59-63)
       U_l \ U*l\U**l|U**r/U*r / U_r

The flux is written without branches, so that the compiler can take four or eight faces at a time: on the side of the
contact that the face lies on, F = F_K + s_k (U* - U) + s_a (U** - U*), where a wave that does not cross the face has
speed 0. The origin of the rows is not known here.
"""

from math import copysign, sqrt

from stencil_app.jit import inlined, row_kernel
from stencil_app.mesh.layout import Array
from stencil_app.mhd.workspace import PIECE

#: Lanes of left and right states: density, velocity normal and transverse, pressure, transverse field.
RHO, VN, VT, VS, P, BT, BS = (PIECE * lane for lane in range(7))
#: Lanes of fluxes: mass, momenta, energy, the two electric fields, and the weight of the left cell in upwinding.
F_RHO, F_MN, F_MT, F_MS, F_E, F_ET, F_ES, F_W = (PIECE * lane for lane in range(8))

#: Where |ρ(s-u)(s-sm) - B²| is below this times the total pressure, the fast wave is an Alfvén wave (as in Athena++);
#: the quotient of two small numbers would amplify round-off and second-order terms to a flux without bound.
_DEGENERATE = 1e-4
#: How steeply the upwind weight turns with the mass flux: a hard switch would amplify round-off where it vanishes.
_RAMP = 1024.0


@inlined
def _fast_speed(bn2: float, cross: float, sound: float, density: float) -> float:
    """Return fast magnetosonic speed along the normal (their eq. 3); sound : γp, cross : transverse field squared."""
    gap = bn2 + cross - sound
    return sqrt(0.5 * (bn2 + cross + sound + sqrt(gap * gap + 4.0 * sound * cross)) / density)


@inlined
def _behind_fast(
    bn: float,
    speeds: tuple[float, float, float],
    transverse: tuple[float, float, float, float],
    pressure: float,
) -> tuple[float, float, float, float]:
    """Return transverse velocity and field behind a fast wave (eqs 44-47).

    Where the Alfvén wave meets it, those before it.

    speeds : mass flux ρ(s - u), s - u and s - sm.  transverse : velocity t, s and field t, s before the wave
    """
    mass, before, behind = speeds
    t, z, bt, bs = transverse
    whole = mass * behind - bn * bn
    solid = abs(whole) >= _DEGENERATE * pressure
    inverse = 1.0 / (whole if solid else 1.0)
    turn = bn * (before - behind) * inverse if solid else 0.0
    grow = (mass * before - bn * bn) * inverse if solid else 1.0
    return t - bt * turn, z - bs * turn, bt * grow, bs * grow


@inlined
def _between_alfven(
    left: tuple[float, float, float, float],
    right: tuple[float, float, float, float],
    roots: tuple[float, float],
    sign: float,
) -> tuple[float, float, float, float]:
    """Return transverse velocity and field between the Alfvén waves (eqs 59-62); roots : √ρ of both sides."""
    tl, zl, btl, bsl = left
    tr, zr, btr, bsr = right
    root_l, root_r = roots
    inverse, both = 1.0 / (root_l + root_r), sign * root_l * root_r
    return (
        inverse * (root_l * tl + root_r * tr + sign * (btr - btl)),
        inverse * (root_l * zl + root_r * zr + sign * (bsr - bsl)),
        inverse * (root_l * btr + root_r * btl + both * (tr - tl)),
        inverse * (root_l * bsr + root_r * bsl + both * (zr - zl)),
    )


@row_kernel
def hlld(left: Array, right: Array, normal_b: Array, flux: Array, gas: tuple[float, float], n: int) -> None:
    """Compute the fluxes through faces 0..n-1.

    left, right : float64[7 PIECE], states in lanes RHO, VN, VT, VS, P, BT, BS (n, t, s: a right-handed frame)
    normal_b : float64[>= n], field through each face
    flux : float64[8 PIECE], lanes F_RHO ... F_W; electric fields along t and s, E = -v × B
    gas : adiabatic index, Δt / Δx (for the upwind weight)
    """
    gamma, dt_dx = gas
    for i in range(n):
        bn = normal_b[i]
        bn2 = bn * bn
        rl, ul, tl, zl = left[RHO + i], left[VN + i], left[VT + i], left[VS + i]
        rr, ur, tr, zr = right[RHO + i], right[VN + i], right[VT + i], right[VS + i]
        pl, btl, bsl = left[P + i], left[BT + i], left[BS + i]
        pr, btr, bsr = right[P + i], right[BT + i], right[BS + i]
        cross_l, cross_r = btl * btl + bsl * bsl, btr * btr + bsr * bsr
        fast_l = _fast_speed(bn2, cross_l, gamma * pl, rl)
        fast_r = _fast_speed(bn2, cross_r, gamma * pr, rr)
        # The outer waves (eq. 67); contact, total pressure and densities between them (eqs 38, 41, 43).
        sl, sr = min(ul - fast_l, ur - fast_r), max(ul + fast_l, ur + fast_r)
        ptl, ptr = pl + 0.5 * (bn2 + cross_l), pr + 0.5 * (bn2 + cross_r)
        dl, dr = rl * (sl - ul), rr * (sr - ur)
        sm = (dr * ur - dl * ul - ptr + ptl) / (dr - dl)
        pts = 0.5 * (ptl + dl * (sm - ul) + ptr + dr * (sm - ur))
        inv_l, inv_r = 1.0 / (sl - sm), 1.0 / (sr - sm)
        rsl, rsr = dl * inv_l, dr * inv_r
        root_l, root_r, sign = sqrt(rsl), sqrt(rsr), copysign(1.0, bn)
        star_l = _behind_fast(bn, (dl, sl - ul, sl - sm), (tl, zl, btl, bsl), pts)
        star_r = _behind_fast(bn, (dr, sr - ur, sr - sm), (tr, zr, btr, bsr), pts)
        tss, zss, btss, bsss = _between_alfven(star_l, star_r, (root_l, root_r), sign)
        # From here on only the side of the contact that the face lies on.
        here = sm >= 0.0
        r, u, t, z = rl if here else rr, ul if here else ur, tl if here else tr, zl if here else zr
        p, pt = pl if here else pr, ptl if here else ptr
        bt, bs = btl if here else btr, bsl if here else bsr
        ts, zs = star_l[0] if here else star_r[0], star_l[1] if here else star_r[1]
        bts, bss = star_l[2] if here else star_r[2], star_l[3] if here else star_r[3]
        rs, root = rsl if here else rsr, root_l if here else root_r
        s, inv_s, side = sl if here else sr, inv_l if here else inv_r, 1.0 if here else -1.0
        # A wave that runs to the other side does not cross the face: min(s, 0) left of it, max(s, 0) right of it.
        sk = side * min(side * s, 0.0)
        sa = side * min(side * sm - abs(bn) / root, 0.0)
        e = p / (gamma - 1.0) + 0.5 * (r * (u * u + t * t + z * z) + bn2 + bt * bt + bs * bs)
        vb, vbs = u * bn + t * bt + z * bs, sm * bn + ts * bts + zs * bss
        vbss = sm * bn + tss * btss + zss * bsss
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
