"""`nws units`: the systemd unit files of server and sensor."""

from nws.deploy.options import units_command
from nws.deploy.weather import SENSOR, SERVER

units = units_command((SERVER, SENSOR), "/etc/nws")
