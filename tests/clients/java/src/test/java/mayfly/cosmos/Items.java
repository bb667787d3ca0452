package mayfly.cosmos;

import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBatchResponse;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosItemResponse;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.SqlQuerySpec;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.stream.Stream;

/** The items of a container, through either of the vendor's clients with its default options. */
interface Items {
    CosmosItemResponse<ObjectNode> create(ObjectNode item);

    CosmosItemResponse<ObjectNode> upsert(ObjectNode item);

    CosmosItemResponse<ObjectNode> replace(String id, ObjectNode item);

    CosmosItemResponse<ObjectNode> patch(String id, String key, CosmosPatchOperations operations);

    CosmosItemResponse<Object> delete(String id, String key);

    CosmosItemResponse<ObjectNode> read(String id, String key);

    CosmosBatchResponse batch(CosmosBatch batch);

    /** All pages of a query. */
    Stream<FeedResponse<JsonNode>> pages(SqlQuerySpec query, CosmosQueryRequestOptions options, String token, int size);

    /** All items of a logical partition. */
    List<ObjectNode> readAll(String key);

    FeedResponse<ObjectNode> readMany(List<CosmosItemIdentity> places);

    CosmosContainerProperties properties();

    void replaceProperties(CosmosContainerProperties properties);

    /** The rows of a query over the whole container. */
    default List<JsonNode> query(String text) {
        return pages(new SqlQuerySpec(text), new CosmosQueryRequestOptions(), null, 100)
                .flatMap(page -> page.getResults().stream())
                .toList();
    }

    /** Sets the container's `defaultTtl`; null: off. */
    default void setDefaultTtl(Integer seconds) {
        CosmosContainerProperties properties = properties();
        properties.setDefaultTimeToLiveInSeconds(seconds);
        replaceProperties(properties);
    }

    /** The synchronous client. */
    record Sync(CosmosContainer container) implements Items {
        @Override
        public CosmosItemResponse<ObjectNode> create(ObjectNode item) {
            return container.createItem(item);
        }

        @Override
        public CosmosItemResponse<ObjectNode> upsert(ObjectNode item) {
            return container.upsertItem(item);
        }

        @Override
        public CosmosItemResponse<ObjectNode> replace(String id, ObjectNode item) {
            return container.replaceItem(item, id, new PartitionKey(item.get("pk").textValue()), null);
        }

        @Override
        public CosmosItemResponse<ObjectNode> patch(String id, String key, CosmosPatchOperations operations) {
            return container.patchItem(id, new PartitionKey(key), operations, ObjectNode.class);
        }

        @Override
        public CosmosItemResponse<Object> delete(String id, String key) {
            return container.deleteItem(id, new PartitionKey(key), null);
        }

        @Override
        public CosmosItemResponse<ObjectNode> read(String id, String key) {
            return container.readItem(id, new PartitionKey(key), ObjectNode.class);
        }

        @Override
        public CosmosBatchResponse batch(CosmosBatch batch) {
            return container.executeCosmosBatch(batch);
        }

        @Override
        public Stream<FeedResponse<JsonNode>> pages(
                SqlQuerySpec query, CosmosQueryRequestOptions options, String token, int size) {
            var found = container.queryItems(query, options, JsonNode.class);
            return (token == null ? found.streamByPage(size) : found.streamByPage(token, size)).sequential();
        }

        @Override
        public List<ObjectNode> readAll(String key) {
            return container.readAllItems(new PartitionKey(key), ObjectNode.class).stream().toList();
        }

        @Override
        public FeedResponse<ObjectNode> readMany(List<CosmosItemIdentity> places) {
            return container.readMany(places, ObjectNode.class);
        }

        @Override
        public CosmosContainerProperties properties() {
            return container.read().getProperties();
        }

        @Override
        public void replaceProperties(CosmosContainerProperties properties) {
            container.replace(properties);
        }
    }

    /** The asynchronous client, waited for. */
    record Async(CosmosAsyncContainer container) implements Items {
        @Override
        public CosmosItemResponse<ObjectNode> create(ObjectNode item) {
            return container.createItem(item).block();
        }

        @Override
        public CosmosItemResponse<ObjectNode> upsert(ObjectNode item) {
            return container.upsertItem(item).block();
        }

        @Override
        public CosmosItemResponse<ObjectNode> replace(String id, ObjectNode item) {
            return container.replaceItem(item, id, new PartitionKey(item.get("pk").textValue())).block();
        }

        @Override
        public CosmosItemResponse<ObjectNode> patch(String id, String key, CosmosPatchOperations operations) {
            return container.patchItem(id, new PartitionKey(key), operations, ObjectNode.class).block();
        }

        @Override
        public CosmosItemResponse<Object> delete(String id, String key) {
            return container.deleteItem(id, new PartitionKey(key)).block();
        }

        @Override
        public CosmosItemResponse<ObjectNode> read(String id, String key) {
            return container.readItem(id, new PartitionKey(key), ObjectNode.class).block();
        }

        @Override
        public CosmosBatchResponse batch(CosmosBatch batch) {
            return container.executeCosmosBatch(batch).block();
        }

        @Override
        public Stream<FeedResponse<JsonNode>> pages(
                SqlQuerySpec query, CosmosQueryRequestOptions options, String token, int size) {
            var found = container.queryItems(query, options, JsonNode.class);
            return (token == null ? found.byPage(size) : found.byPage(token, size)).toStream();
        }

        @Override
        public List<ObjectNode> readAll(String key) {
            return container.readAllItems(new PartitionKey(key), ObjectNode.class).collectList().block();
        }

        @Override
        public FeedResponse<ObjectNode> readMany(List<CosmosItemIdentity> places) {
            return container.readMany(places, ObjectNode.class).block();
        }

        @Override
        public CosmosContainerProperties properties() {
            return container.read().block().getProperties();
        }

        @Override
        public void replaceProperties(CosmosContainerProperties properties) {
            container.replace(properties).block();
        }
    }
}
