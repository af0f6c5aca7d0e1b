"""Forecasts of series: a battery of streaming predictors, and the choice among their answers.

The entry point is `nws.forecasting.batteries` (`BatteryBank`);
`nws.forecasting.accuracy` measures the battery's accuracy on a file of measurements. `layout` lists the methods,
`predictors`, `sliding` and `autoregression` are their mathematics, `selection` and `shrinkage` combine them into one
answer, and `kernel` joins all. Names are imported from their modules, so that a program that never forecasts does not
load the compiler. Source: Wolski et al. 2000, §2.4, and the papers it cites for the forecasters.
"""
