"""What tests of applications use: a server in the test process, on a clock that the test moves."""
