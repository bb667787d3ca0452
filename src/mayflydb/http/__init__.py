"""HTTP/1.1 as it comes and goes over connections, without knowing what it is about."""
