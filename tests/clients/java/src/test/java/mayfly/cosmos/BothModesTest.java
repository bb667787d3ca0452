package mayfly.cosmos;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.ThroughputProperties;
import java.util.EnumMap;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;

/** Every test in gateway mode and in direct mode, by synchronous clients. */
@ParameterizedClass(name = "{0}")
@EnumSource
abstract class BothModesTest extends CosmosTest {
    private static final Map<Flavour, CosmosClient> CLIENTS = new EnumMap<>(Flavour.class);

    @Parameter
    Flavour mode;

    @BeforeAll
    static void openBoth() {
        CLIENTS.put(Flavour.GATEWAY, client);
        CLIENTS.put(Flavour.DIRECT, Flavour.DIRECT.builder().buildClient());
    }

    @AfterAll
    static void closeDirect() {
        CLIENTS.remove(Flavour.DIRECT).close();
    }

    CosmosClient client() {
        return CLIENTS.get(mode);
    }

    CosmosDatabase shop() {
        return client().getDatabase("shop");
    }

    CosmosContainer fresh(CosmosContainerProperties properties, int throughput) {
        shop().createContainer(properties, ThroughputProperties.createManualThroughput(throughput));
        return shop().getContainer(properties.getId());
    }

    CosmosContainer fresh(CosmosContainerProperties properties) {
        return fresh(properties, 400);
    }
}
