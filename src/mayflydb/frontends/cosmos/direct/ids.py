"""The numbers of rntbd: tokens, resources, operations.

`RntbdConstants` of azure-cosmos (https://github.com/Azure/azure-sdk-for-java, `directconnectivity/rntbd`).
"""

from __future__ import annotations

from typing import Final

# --- resources ---------------------------------------------------------------------------------------------------------
CONNECTION: Final = 0x00
DATABASE: Final = 0x01
COLLECTION: Final = 0x02
DOCUMENT: Final = 0x03
USER: Final = 0x05
PERMISSION: Final = 0x06
STORED_PROCEDURE: Final = 0x07
CONFLICT: Final = 0x08
TRIGGER: Final = 0x09
USER_DEFINED_FUNCTION: Final = 0x0A
PARTITION_KEY_RANGE: Final = 0x16

# --- operations --------------------------------------------------------------------------------------------------------
CREATE: Final = 0x01
PATCH: Final = 0x02
READ: Final = 0x03
READ_FEED: Final = 0x04
DELETE: Final = 0x05
REPLACE: Final = 0x06
EXECUTE_SCRIPT: Final = 0x08
SQL_QUERY: Final = 0x09
QUERY: Final = 0x0F
HEAD: Final = 0x11
HEAD_FEED: Final = 0x12
UPSERT: Final = 0x13
BATCH: Final = 0x25

# --- tokens of the frame that opens a connection, and of its answer -------------------------------------------------------
CONTEXT_PROTOCOL_VERSION: Final = 0x0000
CONTEXT_CLIENT_VERSION: Final = 0x0001
CONTEXT_SERVER_AGENT: Final = 0x0002
CONTEXT_SERVER_VERSION: Final = 0x0003
CONTEXT_IDLE_SECONDS: Final = 0x0004
CONTEXT_UNAUTHENTICATED_SECONDS: Final = 0x0005

# --- tokens of requests ------------------------------------------------------------------------------------------------
RESOURCE_ID: Final = 0x0000
AUTHORIZATION_TOKEN: Final = 0x0001
PAYLOAD_PRESENT: Final = 0x0002
DATE_TOKEN: Final = 0x0003
PAGE_SIZE: Final = 0x0004
SESSION: Final = 0x0005
CONTINUATION_TOKEN: Final = 0x0006
INDEXING: Final = 0x0007
MATCH: Final = 0x0008
PRE_TRIGGER: Final = 0x0009
POST_TRIGGER: Final = 0x000A
CONSISTENCY: Final = 0x0010
REPLICA_PATH_TOKEN: Final = 0x0013
RESOURCE_TOKEN_EXPIRY: Final = 0x0014
DATABASE_NAME: Final = 0x0015
COLLECTION_NAME: Final = 0x0016
DOCUMENT_NAME: Final = 0x0017
USER_NAME: Final = 0x0019
PERMISSION_NAME: Final = 0x001A
STORED_PROCEDURE_NAME: Final = 0x001B
USER_DEFINED_FUNCTION_NAME: Final = 0x001C
TRIGGER_NAME: Final = 0x001D
CONFLICT_NAME: Final = 0x0020
PARTITION_KEY_TOKEN: Final = 0x002B
RANGE_ID: Final = 0x002C
COLLECTION_RID_TOKEN: Final = 0x0035
RANGE_NAME: Final = 0x0036
SCRIPT_LOGGING: Final = 0x003E
A_IM_TOKEN: Final = 0x003F
QUOTA_INFO: Final = 0x0040
QUERY_METRICS_WANTED: Final = 0x0042
PARTITION_STATISTICS: Final = 0x0044
MODIFIED_SINCE: Final = 0x0047
TRANSPORT_REQUEST_ID: Final = 0x004D
ITEM_TTL: Final = 0x0059
DIRECTION: Final = 0x005E
START_ID: Final = 0x005F
END_ID: Final = 0x0060
START_EPK_TOKEN: Final = 0x0062
END_EPK_TOKEN: Final = 0x0063
FEED_KEY_TYPE: Final = 0x0064
CONTENT_FORMAT_TOKEN: Final = 0x0065
IS_ATOMIC: Final = 0x0073
CONTINUES_ON_ERROR: Final = 0x0074
RETURN_PREFERENCE: Final = 0x0082
INTENDED_COLLECTION_RID: Final = 0x009D
INDEX_METRICS: Final = 0x00A9
FEED_WIRE_FORMAT: Final = 0x00B2
INDEX_METRICS_V2: Final = 0x00C2
SUPPORTED_FORMATS_TOKEN: Final = 0x00C4

# --- tokens of answers -------------------------------------------------------------------------------------------------
ANSWER_PAYLOAD_PRESENT: Final = 0x0000
ANSWER_CONTINUATION: Final = 0x0003
ANSWER_ETAG: Final = 0x0004
ANSWER_RETRY_AFTER: Final = 0x000C
ANSWER_QUOTA: Final = 0x000E
ANSWER_USAGE: Final = 0x000F
ANSWER_LSN: Final = 0x0013
ANSWER_ITEM_COUNT: Final = 0x0014
ANSWER_CHARGE: Final = 0x0015
ANSWER_OWNER_NAME: Final = 0x0017
ANSWER_OWNER_ID: Final = 0x0018
ANSWER_QUORUM_ACKED_LSN: Final = 0x001A
ANSWER_REFUSED_EVERYWHERE: Final = 0x001B
ANSWER_SUBSTATUS: Final = 0x001C
ANSWER_WRITE_QUORUM: Final = 0x001E
ANSWER_REPLICAS: Final = 0x001F
ANSWER_RANGE_ID: Final = 0x0021
ANSWER_SCRIPT_LOG: Final = 0x0025
ANSWER_QUERY_METRICS: Final = 0x0028
ANSWER_COMMITTED_LSN: Final = 0x0029
ANSWER_READ_REGIONS: Final = 0x0030
ANSWER_ITEM_LSN: Final = 0x0032
ANSWER_TRANSPORT_REQUEST_ID: Final = 0x0035
ANSWER_LOCAL_LSN: Final = 0x003A
ANSWER_QUORUM_ACKED_LOCAL_LSN: Final = 0x003B
ANSWER_SESSION_TOKEN: Final = 0x003E
ANSWER_INDEX_UTILIZATION: Final = 0x0044
ANSWER_QUERY_EXECUTION_INFO: Final = 0x0045
