"""Forecasts of series: a battery of streaming predictors, and the choice of who answers.

`nws.forecasting.bank` is the way in (`BatteryBank` for many series, `Battery` for one); `nws.forecasting.score`
says how well the battery does on a file of measurements. `layout` lists the methods, `predictors`,
`sliding` and `autoregression` are their mathematics, `selection` and `leaning` make one answer of them, and `kernel`
joins them all.
Names are imported from their modules, so that a program that never forecasts does not load the compiler.
Source: Wolski et al. 2000, §2.4, and the papers it cites for the forecasters.
"""
