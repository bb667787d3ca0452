package mayfly.ydb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import mayfly.Server;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tech.ydb.common.transaction.TxMode;
import tech.ydb.core.grpc.GrpcTransport;
import tech.ydb.query.QueryClient;
import tech.ydb.query.tools.QueryReader;
import tech.ydb.query.tools.SessionRetryContext;
import tech.ydb.table.query.Params;
import tech.ydb.table.values.PrimitiveValue;

/** YDB's SDK and its JDBC driver: a table with a TTL, rows, queries, a transaction, and a run that erases. */
class YdbTest {
    private static final String TABLE = """
            CREATE TABLE carts (id Uint64, name Utf8, until Timestamp, PRIMARY KEY (id))
            WITH (TTL = Interval("PT1H") ON until)""";

    private static final long HOUR = 3600;

    /** Cart n dies an hour after its `until`: 1, 2 and 11 hours from the start on. Runs that erase the dead come each hour. */
    private static Instant until(long n) {
        return Server.START.plusSeconds(HOUR * (n == 3 ? 10 : n - 1));
    }

    @BeforeEach
    void begin() {
        Server.begin();
    }

    /** The transport to an address, which trusts Mayfly's certificate. */
    private static GrpcTransport transport(String address) throws IOException {
        byte[] certificate = Files.readAllBytes(Path.of(Server.variable("MAYFLY_CERT")));
        return GrpcTransport.forConnectionString(Server.variable(address)).withSecureConnection(certificate).build();
    }

    @ParameterizedTest
    @ValueSource(strings = {"MAYFLY_YDB_TLS", "MAYFLY_YDB"})
    void queries(String address) throws IOException {
        var transport = address.endsWith("TLS")
                ? transport(address)
                : GrpcTransport.forConnectionString(Server.variable(address)).build();
        try (transport;
                QueryClient client = QueryClient.newClient(transport).build()) {
            var context = SessionRetryContext.create(client).build();
            run(context, TABLE, TxMode.NONE, Params.empty());
            for (long id = 1; id <= 3; id++) {
                var row = Params.of(
                        "$id", PrimitiveValue.newUint64(id),
                        "$name", PrimitiveValue.newText("cart " + id),
                        "$until", PrimitiveValue.newTimestamp(until(id)));
                String upsert = """
                        DECLARE $id AS Uint64; DECLARE $name AS Utf8; DECLARE $until AS Timestamp;
                        UPSERT INTO carts (id, name, until) VALUES ($id, $name, $until)""";
                run(context, upsert, TxMode.SERIALIZABLE_RW, row);
            }
            assertEquals(List.of("cart 1", "cart 2", "cart 3"), names(context));
            Server.advance(HOUR - 1);
            assertEquals(3, names(context).size(), "none is dead yet");
            Server.advance(2 * HOUR + 1);
            assertEquals(List.of("cart 3"), names(context));
        }
    }

    private static QueryReader run(SessionRetryContext context, String text, TxMode mode, Params params) {
        return context.supplyResult(session -> QueryReader.readFrom(session.createQuery(text, mode, params)))
                .join()
                .getValue();
    }

    private static List<String> names(SessionRetryContext context) {
        var rows = run(context, "SELECT name FROM carts ORDER BY id", TxMode.SNAPSHOT_RO, Params.empty()).getResultSet(0);
        List<String> names = new ArrayList<>();
        while (rows.next()) {
            names.add(rows.getColumn("name").getText());
        }
        return names;
    }

    // --- JDBC ---------------------------------------------------------------------------------------------------------

    @ParameterizedTest
    @ValueSource(strings = {"MAYFLY_YDB_TLS", "MAYFLY_YDB"})
    void jdbc(String address) throws SQLException {
        String url = "jdbc:ydb:" + Server.variable(address);
        if (address.endsWith("TLS")) {
            url += "?secureConnectionCertificate=file:" + Server.variable("MAYFLY_CERT");
        }
        try (Connection connection = DriverManager.getConnection(url);
                Statement statement = connection.createStatement()) {
            statement.execute(TABLE);
            String text = "UPSERT INTO carts (id, name, until) VALUES (?, ?, ?)";
            try (PreparedStatement upsert = connection.prepareStatement(text)) {
                for (long id = 1; id <= 3; id++) {
                    upsert.setLong(1, id);
                    upsert.setString(2, "cart " + id);
                    upsert.setTimestamp(3, Timestamp.from(until(id)));
                    upsert.addBatch();
                }
                upsert.executeBatch();
            }
            assertEquals(List.of("cart 1", "cart 2", "cart 3"), names(statement));
            var columns = new ArrayList<String>();
            try (ResultSet found = connection.getMetaData().getColumns(null, null, "carts", null)) {
                while (found.next()) {
                    columns.add(found.getString("COLUMN_NAME"));
                }
            }
            assertEquals(List.of("id", "name", "until"), columns);
            Server.advance(3 * HOUR);
            assertEquals(List.of("cart 3"), names(statement));
        }
    }

    private static List<String> names(Statement statement) throws SQLException {
        List<String> names = new ArrayList<>();
        try (ResultSet rows = statement.executeQuery("SELECT name FROM carts ORDER BY id")) {
            while (rows.next()) {
                names.add(rows.getString("name"));
            }
        }
        return names;
    }

    @Test
    void aTransactionOfJdbc() throws SQLException {
        String url = "jdbc:ydb:" + Server.variable("MAYFLY_YDB");
        try (Connection one = DriverManager.getConnection(url);
                Connection two = DriverManager.getConnection(url);
                Statement writes = one.createStatement();
                Statement reads = two.createStatement()) {
            writes.execute(TABLE);
            one.setAutoCommit(false);
            writes.executeUpdate("UPSERT INTO carts (id, name) VALUES (1, 'cart 1'u)");
            assertEquals(List.of("cart 1"), names(writes));
            assertEquals(List.of(), names(reads));
            one.commit();
            assertEquals(List.of("cart 1"), names(reads));
            writes.executeUpdate("DELETE FROM carts WHERE id = 1");
            one.rollback();
            assertTrue(names(reads).contains("cart 1"));
        }
    }
}
