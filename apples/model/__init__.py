"""The records that the other packages share: grid, application template, plan, snapshot, host lists."""
