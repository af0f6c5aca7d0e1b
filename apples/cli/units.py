"""`apples units`: the systemd unit files of machine manager, node manager and queue."""

from apples.daemons.units import DAEMONS
from nws.deploy.options import units_command

units = units_command(DAEMONS, "/etc/apples")
