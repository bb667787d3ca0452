"""Direct mode: Cosmos DB's binary protocol (rntbd) beside HTTP, on the same port."""
