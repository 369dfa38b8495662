"""From a dataset to trained weights: configuration, run folder, loop, losses."""
