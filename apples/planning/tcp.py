"""The price of lost packets on a link, as TCP pays it.

*A message* whose last packet is lost waits for the retransmission timeout, which doubles with each further loss.
Padhye, Firoiu, Towsley and Kurose (1998, eq. 27 ff.) give the mean length of such a sequence: T0·f(p)/(1-p). T0 is
Linux's: a round trip and at least 200 ms (`TCP_RTO_MIN`).

*A transfer* is limited by its congestion window: Mathis, Semke, Mahdavi and Ott (1997) bound its throughput by
MSS/RTT · sqrt(3/2)/sqrt(p). That is a bound for Reno; CUBIC does no worse at the round trips of a site.

Not modelled: losses by the run's own congestion, other transports, and delays of further ranks by a wait.
"""

import numpy as np

from apples.model.grid import FloatArray

#: Least time that Linux adds to the round trip before it sends an unacknowledged packet again.
RTO_MIN_S = 0.2
#: Bytes of a TCP segment on Ethernet, with timestamps.
SEGMENT_BYTES = 1448.0
_MATHIS = np.sqrt(1.5)


def retransmission_wait_s(loss: FloatArray, round_trip_s: FloatArray) -> FloatArray:
    """Return the mean seconds that a message waits for retransmissions. loss : share of packets lost, under 1"""
    backoff = 1 + loss + 2 * loss**2 + 4 * loss**3 + 8 * loss**4 + 16 * loss**5 + 32 * loss**6
    return loss / (1 - loss) * backoff * (round_trip_s + RTO_MIN_S)


def throughput_Bps(bandwidth: FloatArray, loss: FloatArray, round_trip_s: FloatArray) -> FloatArray:
    """Return the bytes per second of a transfer over a link of `bandwidth` bytes per second."""
    limited = (loss > 0) & (round_trip_s > 0)
    pace = np.where(limited, round_trip_s * np.sqrt(loss), 1.0)
    bound = SEGMENT_BYTES * _MATHIS / pace
    return np.where(limited, np.minimum(bandwidth, bound), bandwidth)
