"""Help for tests of applications: a server in the test process, on a clock that the test moves."""
