"""The parts of the engine that lifecycle settings are about: before an expiry, at it and after it."""
