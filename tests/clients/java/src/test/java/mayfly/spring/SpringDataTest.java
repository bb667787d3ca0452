package mayfly.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.models.PartitionKey;
import com.azure.spring.data.cosmos.config.AbstractCosmosConfiguration;
import com.azure.spring.data.cosmos.core.CosmosTemplate;
import com.azure.spring.data.cosmos.core.query.CosmosPageRequest;
import com.azure.spring.data.cosmos.exception.CosmosAccessException;
import com.azure.spring.data.cosmos.exception.CosmosBadRequestException;
import com.azure.spring.data.cosmos.repository.config.EnableCosmosRepositories;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.StreamSupport;
import mayfly.Server;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.domain.Sort;

/** A repository of Spring Data whose container it makes itself, with a time to live. */
class SpringDataTest {
    private static AnnotationConfigApplicationContext context;
    private static Sessions sessions;

    @Configuration
    @EnableCosmosRepositories
    static class Settings extends AbstractCosmosConfiguration {
        @Bean
        CosmosClientBuilder cosmosClientBuilder() {
            String endpoint = Server.variable("MAYFLY_COSMOS_TLS");
            String key = Server.variable("MAYFLY_KEY");
            return new CosmosClientBuilder().endpoint(endpoint).key(key);
        }

        @Override
        protected String getDatabaseName() {
            return "spring";
        }
    }

    @BeforeAll
    static void open() {
        Server.begin();
        context = new AnnotationConfigApplicationContext(Settings.class);
        sessions = context.getBean(Sessions.class);
    }

    @AfterAll
    static void close() {
        context.close();
    }

    @BeforeEach
    void empty() {
        sessions.deleteAll();
    }

    private static List<String> ids(Iterable<Session> found) {
        return StreamSupport.stream(found.spliterator(), false).map(session -> session.id).toList();
    }

    @Test
    void theContainerHasTheTimeToLive() {
        var properties = context.getBean(CosmosTemplate.class).getContainerProperties("sessions");
        assertEquals(600, properties.getDefaultTimeToLiveInSeconds());
        assertEquals(List.of("/user"), properties.getPartitionKeyDefinition().getPaths());
    }

    @Test
    void aSessionEnds() {
        sessions.save(new Session("default", "ann", null));
        sessions.save(new Session("short", "ann", 60));
        sessions.save(new Session("always", "ann", -1));
        Server.advance(59);
        assertEquals(List.of("always", "default", "short"), ids(sessions.findByUserOrderById("ann")));
        Server.advance(1);
        assertEquals(List.of("always", "default"), ids(sessions.findByUserOrderById("ann")));
        assertFalse(sessions.findById("short", new PartitionKey("ann")).isPresent());
        Server.advance(539);
        assertTrue(sessions.existsById("default"));
        Server.advance(1);
        assertEquals(List.of("always"), ids(sessions.findAll()));
        assertEquals(1, sessions.count());
        assertEquals(1, sessions.countByUser("ann"));
    }

    @Test
    void savingRenews() {
        Session saved = sessions.save(new Session("1", "ann", null));
        Server.advance(599);
        Session renewed = sessions.save(saved);
        assertNotEquals(saved._etag, null);
        Server.advance(599);
        assertEquals(renewed._etag, sessions.findById("1", new PartitionKey("ann")).orElseThrow()._etag);
        Server.advance(1);
        assertFalse(sessions.findById("1", new PartitionKey("ann")).isPresent());
    }

    @Test
    void aStaleSessionIsNotSaved() {
        Session first = sessions.save(new Session("1", "ann", null));
        Session stale = new Session("1", "ann", 60);
        stale._etag = first._etag;
        sessions.save(first);
        assertThrows(CosmosAccessException.class, () -> sessions.save(stale));
    }

    @Test
    void aTtlOfNullIsRefused() {
        var template = context.getBean(CosmosTemplate.class);
        WithNull bad = new WithNull();
        bad.id = "1";
        assertThrows(CosmosBadRequestException.class, () -> template.insert("sessions", bad));
    }

    @Test
    void pages() {
        sessions.saveAll(IntStream.range(10, 35).mapToObj(n -> new Session("s" + n, "u" + n % 3, null)).toList());
        List<String> found = new ArrayList<>();
        var page = sessions.findAll(new CosmosPageRequest(0, 10, null, Sort.by("id")));
        while (true) {
            assertTrue(page.getNumberOfElements() <= 10);
            found.addAll(ids(page));
            if (!page.hasNext()) {
                break;
            }
            page = sessions.findAll(page.nextPageable());
        }
        assertEquals(IntStream.range(10, 35).mapToObj(n -> "s" + n).toList(), found);
    }

    @Test
    void queriesAndDeletes() {
        sessions.saveAll(List.of(new Session("a", "ann", 60), new Session("b", "bob", 6000), new Session("c", "bob", null)));
        assertEquals(List.of("b"), ids(sessions.livingFor(61)));
        sessions.deleteById("b", new PartitionKey("bob"));
        assertEquals(List.of("c"), ids(sessions.findByUserOrderById("bob")));
        sessions.deleteAll();
        assertEquals(0, sessions.count());
    }
}
