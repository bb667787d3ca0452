"""What Docker's client raises."""


class DockerException(Exception):
    pass
