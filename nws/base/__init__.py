"""The foundation that both packages stand on: errors, files, locks, settings, clocks of the disk and the process."""
