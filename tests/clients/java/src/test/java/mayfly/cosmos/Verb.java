package mayfly.cosmos;

import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;

/** The ways to write an item of partition `p`. */
enum Verb {
    CREATE,
    UPSERT,
    REPLACE,
    PATCH,
    BATCH;

    /** Puts the item there that the verb needs. */
    void prepare(Items items, String id) {
        if (this == REPLACE || this == PATCH) {
            items.create(CosmosTest.item(id, "p"));
        }
    }

    /** Writes the item with one more member, whose value is this JSON text; returns the status of the answer. */
    int write(Items items, String id, String member, String text) {
        ObjectNode item = CosmosTest.item(id, "p", member, text);
        try {
            return switch (this) {
                case CREATE -> items.create(item).getStatusCode();
                case UPSERT -> items.upsert(item).getStatusCode();
                case REPLACE -> items.replace(id, item).getStatusCode();
                case PATCH -> items.patch(id, "p", addition(member, text)).getStatusCode();
                case BATCH -> items.batch(batchOf(item)).getResults().get(0).getStatusCode();
            };
        } catch (CosmosException error) {
            return error.getStatusCode();
        }
    }

    private static CosmosPatchOperations addition(String member, String text) {
        return CosmosPatchOperations.create().add("/" + member, new RawValue(text));
    }

    private static CosmosBatch batchOf(ObjectNode item) {
        CosmosBatch batch = CosmosBatch.createCosmosBatch(new PartitionKey("p"));
        batch.createItemOperation(item);
        return batch;
    }
}
