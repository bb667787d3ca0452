package mayfly.cosmos;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.node.ObjectNode;
import mayfly.Server;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Clients in a JVM that trusts no certificate of Mayfly's.
 *
 * <p>pom.xml gives it a JVM of its own, with two properties: COSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED lets clients take
 * http, and COSMOS.EMULATOR_SERVER_CERTIFICATE_VALIDATION_DISABLED lets them take any certificate.
 */
class WithoutTrustTest {
    @ParameterizedTest
    @CsvSource({
        "MAYFLY_COSMOS, gateway", "MAYFLY_COSMOS_TLS, gateway", "MAYFLY_COSMOS, direct", "MAYFLY_COSMOS_TLS, direct"
    })
    void byAddress(String address, String mode) {
        Server.begin();
        var builder = new CosmosClientBuilder().endpoint(Server.variable(address)).key(Server.variable("MAYFLY_KEY"));
        try (var client = (mode.equals("direct") ? builder.directMode() : builder.gatewayMode()).buildClient()) {
            client.createDatabase("shop");
            client.getDatabase("shop").createContainer("c", "/pk");
            var items = client.getDatabase("shop").getContainer("c");
            items.createItem(CosmosTest.item("1", "p"));
            assertEquals("p", items.readItem("1", new PartitionKey("p"), ObjectNode.class).getItem().get("pk").textValue());
            assertEquals(1, items.queryItems("SELECT * FROM c", null, ObjectNode.class).stream().count());
        }
    }
}
