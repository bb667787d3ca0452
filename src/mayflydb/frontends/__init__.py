"""One package per protocol: its wire, its values, its commands. They know the engine and not each other."""
