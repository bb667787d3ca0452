"""Where bytes live. `interface` is the contract, `contract` checks it, `reference` is its meaning, `sqlite` a store."""
