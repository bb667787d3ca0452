"""The errors of MongoDB's protocol: one exception that carries the code, and the names of the codes.

Names: https://github.com/mongodb/mongo `src/mongo/base/error_codes.yml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mayflydb.model.errors import BadRequest

CODE_NAMES: Final[Mapping[int, str]] = {
    1: "InternalError",
    2: "BadValue",
    4: "NoSuchKey",
    6: "HostUnreachable",
    7: "HostNotFound",
    8: "UnknownError",
    9: "FailedToParse",
    11: "UserNotFound",
    13: "Unauthorized",
    14: "TypeMismatch",
    15: "Overflow",
    17: "ProtocolError",
    18: "AuthenticationFailed",
    20: "IllegalOperation",
    22: "InvalidBSON",
    24: "LockTimeout",
    26: "NamespaceNotFound",
    27: "IndexNotFound",
    28: "PathNotViable",
    30: "CannotBackfillArray",
    31: "RoleNotFound",
    40: "ConflictingUpdateOperators",
    43: "CursorNotFound",
    48: "NamespaceExists",
    50: "MaxTimeMSExpired",
    52: "DollarPrefixedFieldName",
    53: "InvalidIdField",
    54: "NotSingleValueField",
    56: "EmptyFieldName",
    59: "CommandNotFound",
    66: "ImmutableField",
    67: "CannotCreateIndex",
    72: "InvalidOptions",
    73: "InvalidNamespace",
    76: "NoReplicationEnabled",
    79: "UnknownReplWriteConcern",
    85: "IndexOptionsConflict",
    86: "IndexKeySpecsConflict",
    89: "NetworkTimeout",
    91: "ShutdownInProgress",
    96: "OperationFailed",
    100: "UnsatisfiableWriteConcern",
    111: "NotExactValueField",
    112: "WriteConflict",
    115: "CommandNotSupported",
    118: "NamespaceNotSharded",
    121: "DocumentValidationFailure",
    125: "CommandFailed",
    136: "CappedPositionLost",
    146: "ExceededMemoryLimit",
    159: "DurationOverflow",
    161: "IncompatibleCollationVersion",
    165: "ViewDepthLimitExceeded",
    166: "CommandNotSupportedOnView",
    167: "OptionNotSupportedOnView",
    168: "InvalidPipelineOperator",
    171: "CannotIndexParallelArrays",
    173: "InvalidView",
    181: "AmbiguousIndexKeyPattern",
    186: "ClientMetadataCannotBeMutated",
    189: "PrimarySteppedDown",
    197: "InvalidIndexSpecificationOption",
    206: "NoSuchSession",
    207: "InvalidUUID",
    211: "KeyNotFound",
    222: "CloseChangeStream",
    223: "IllegalOpMsgFlag",
    224: "QueryFeatureNotAllowed",
    225: "TransactionTooOld",
    227: "TooManyLogicalSessions",
    237: "CursorKilled",
    238: "NotImplemented",
    241: "ConversionFailure",
    246: "SnapshotUnavailable",
    251: "NoSuchTransaction",
    256: "TransactionCommitted",
    257: "TransactionTooLarge",
    260: "InvalidResumeToken",
    262: "ExceededTimeLimit",
    263: "OperationNotSupportedInTransaction",
    267: "PreparedTransactionInProgress",
    279: "ClientDisconnect",
    280: "ChangeStreamFatalError",
    286: "ChangeStreamHistoryLost",
    288: "ChecksumMismatch",
    291: "NoQueryExecutionPlans",
    292: "QueryExceededMemoryLimitNoDiskUseAllowed",
    313: "TransactionTooLargeForCache",
    322: "APIVersionError",
    323: "APIStrictError",
    324: "APIDeprecationError",
    334: "MechanismUnavailable",
    352: "UnsupportedOpQueryCommand",
    359: "CannotConvertIndexToUnique",
    361: "CollectionUUIDMismatch",
    365: "TemporarilyUnavailable",
    386: "DuplicateKeyId",
    9001: "SocketException",
    10003: "CannotGrowDocumentInCappedNamespace",
    10107: "NotWritablePrimary",
    10334: "BSONObjectTooLarge",
    11000: "DuplicateKey",
    12587: "BackgroundOperationInProgressForNamespace",
    11600: "InterruptedAtShutdown",
    11601: "Interrupted",
    11602: "InterruptedDueToReplStateChange",
    13297: "DatabaseDifferCase",
    13388: "StaleConfig",
    13435: "NotPrimaryNoSecondaryOk",
    13436: "NotPrimaryOrSecondary",
    14031: "OutOfDiskSpace",
    # The code of Azure Cosmos DB for MongoDB when request units run out.
    16500: "TooManyRequests",
    31082: "SearchNotEnabled",
    40414: "IDLFailedToParse",
    40415: "IDLUnknownField",
}


def name_of(code: int) -> str:
    """Return the `codeName` of a code; `Location<code>` for a code without a name."""
    return CODE_NAMES.get(code, f"Location{code}")


class MqlError(BadRequest):
    """An error with a code of the protocol. `fields` go into the reply beside ok, errmsg, code and codeName."""

    def __init__(self, code: int, message: str, labels: tuple[str, ...] = (), **fields: Any) -> None:
        super().__init__(message)
        self.code = code
        self.labels = labels
        self.fields = fields


def bad_value(message: str) -> MqlError:
    """Return an error of code 2."""
    return MqlError(2, message)


def failed_to_parse(message: str) -> MqlError:
    """Return an error of code 9."""
    return MqlError(9, message)


def type_mismatch(field: str, found: str, *expected: str) -> MqlError:
    """Return an error of code 14 for a field of a command that has the wrong type.

    `field` is `<command>.<field>`; `found` and `expected` are aliases of BSON types.
    """
    wanted = f"type '{expected[0]}'" if len(expected) == 1 else f"types '[{', '.join(expected)}]'"
    return MqlError(14, f"BSON field '{field}' is the wrong type '{found}', expected {wanted}")
