"""The weather service over HTTP: permissions, limits, and the form of responses.

`app.create_app` builds the application over a `nws.service` core, `run` binds it to a socket. No module measures,
stores or forecasts. Only `run` starts threads of its own and handles signals.
"""
