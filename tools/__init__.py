"""What builds Atlas from a checkout: the set-up, the build of the package. None of it is installed."""
