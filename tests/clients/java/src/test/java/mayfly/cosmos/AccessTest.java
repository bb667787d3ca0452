package mayfly.cosmos;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosPermissionProperties;
import com.azure.cosmos.models.CosmosPermissionRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosUserProperties;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PermissionMode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import mayfly.Server;
import org.junit.jupiter.api.Test;

/** Users, permissions, and clients that have nothing but a permission's token. */
class AccessTest extends BothModesTest {
    private static final PartitionKey P = new PartitionKey("p");

    private String filled() {
        String name = definition(null).getId();
        shop().createContainer(name, "/pk");
        var items = shop().getContainer(name);
        items.createItem(item("1", "p"));
        items.createItem(item("1", "q"));
        return name;
    }

    private static CosmosPermissionProperties permission(String id, String container, PermissionMode mode) {
        return new CosmosPermissionProperties().setId(id).setContainerName(container).setPermissionMode(mode);
    }

    /** The permission, with a token, of a user of its own. */
    private CosmosPermissionProperties granted(CosmosPermissionProperties permission) {
        String user = userOf(permission.getId());
        shop().createUser(new CosmosUserProperties().setId(user));
        var options = new CosmosPermissionRequestOptions();
        var shop = asyncClient.getDatabase("shop");
        return shop.getUser(user).createPermission(permission, options).block().getProperties();
    }

    private String userOf(String permission) {
        return mode + " of " + permission;
    }

    private CosmosClient holder(CosmosPermissionProperties permission) {
        var builder = new CosmosClientBuilder()
                .endpoint(Server.variable("MAYFLY_COSMOS_TLS"))
                .resourceToken(permission.getToken());
        return (mode == Flavour.GATEWAY ? builder.gatewayMode() : builder).buildClient();
    }

    private static CosmosContainer opened(CosmosClient holder, String container) {
        return holder.getDatabase("shop").getContainer(container);
    }

    @Test
    void users() {
        client().createDatabase("club");
        var club = client().getDatabase("club");
        club.createUser(new CosmosUserProperties().setId("ann"));
        refused(409, () -> club.createUser(new CosmosUserProperties().setId("ann")));
        club.upsertUser(new CosmosUserProperties().setId("bob"));
        assertEquals(
                List.of("ann", "bob"),
                ids(club.readAllUsers(), CosmosUserProperties::getId).stream().sorted().toList());
        var found = club.queryUsers("SELECT * FROM u WHERE u.id = 'bob'", new CosmosQueryRequestOptions());
        assertEquals(List.of("bob"), ids(found, CosmosUserProperties::getId));
        assertEquals("ann", club.getUser("ann").read().getProperties().getId());
        club.getUser("ann").delete();
        refused(404, () -> club.getUser("ann").read());
        club.delete();
    }

    @Test
    void permissions() {
        String container = filled();
        granted(permission("reads", container, PermissionMode.READ));
        var user = asyncClient.getDatabase("shop").getUser(userOf("reads"));
        var read = user.getPermission("reads").read(new CosmosPermissionRequestOptions()).block().getProperties();
        assertEquals(PermissionMode.READ, read.getPermissionMode());
        // The client addresses what it replaces by its link, which a definition that was not read has not got.
        user.getPermission("reads").replace(read.setPermissionMode(PermissionMode.ALL), new CosmosPermissionRequestOptions()).block();
        var all = user.readAllPermissions().collectList().block();
        assertEquals(List.of(PermissionMode.ALL), all.stream().map(CosmosPermissionProperties::getPermissionMode).toList());
        user.getPermission("reads").delete(new CosmosPermissionRequestOptions()).block();
        assertEquals(List.of(), user.readAllPermissions().collectList().block());
    }

    @Test
    void aTokenThatReads() {
        String container = filled();
        String other = filled();
        try (var holder = holder(granted(permission("reads only", container, PermissionMode.READ)))) {
            var items = opened(holder, container);
            assertEquals(200, items.readItem("1", P, ObjectNode.class).getStatusCode());
            assertEquals(2, items.queryItems("SELECT * FROM c", null, ObjectNode.class).stream().count());
            refused(403, () -> items.createItem(item("2", "p"), P, null));
            refused(403, () -> opened(holder, other).readItem("1", P, ObjectNode.class));
        }
    }

    @Test
    void aTokenOfALogicalPartition() {
        String container = filled();
        var permission = permission("writes p", container, PermissionMode.ALL).setResourcePartitionKey(P);
        try (var holder = holder(granted(permission))) {
            var items = opened(holder, container);
            assertEquals(201, items.createItem(item("2", "p"), P, null).getStatusCode());
            assertEquals(2, items.readAllItems(P, ObjectNode.class).stream().count());
            refused(403, () -> items.readItem("1", new PartitionKey("q"), ObjectNode.class));
        }
    }

    @Test
    void aTokenEnds() {
        String container = filled();
        try (var holder = holder(granted(permission("short", container, PermissionMode.READ)))) {
            var items = opened(holder, container);
            Server.advance(3600 - 1);
            assertEquals(200, items.readItem("1", P, ObjectNode.class).getStatusCode());
            Server.advance(2);
            refused(403, () -> items.readItem("1", P, ObjectNode.class));
        }
    }
}
