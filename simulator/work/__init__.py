"""Work: what models, requests and hosts ask of devices, planned one step at a time into programs of the engine."""
