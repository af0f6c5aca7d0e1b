"""The weather service over HTTP: who may ask what, how much of it, and what the answers look like.

`app.create_app` is the application over a `nws.service` core, `run` puts it on a socket. Nothing here measures,
keeps or forecasts; nothing here but `run` starts threads of its own or touches signals.
"""
