package mayfly.cosmos;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosStoredProcedureProperties;
import com.azure.cosmos.models.CosmosStoredProcedureRequestOptions;
import com.azure.cosmos.models.CosmosTriggerProperties;
import com.azure.cosmos.models.CosmosUserDefinedFunctionProperties;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.TriggerOperation;
import com.azure.cosmos.models.TriggerType;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import mayfly.Server;
import org.junit.jupiter.api.Test;

/** Stored procedures, triggers and functions. */
class ScriptTest extends BothModesTest {
    private static final PartitionKey P = new PartitionKey("p");

    private static CosmosStoredProcedureRequestOptions inP() {
        return new CosmosStoredProcedureRequestOptions().setPartitionKey(P);
    }

    @Test
    void aStoredProcedureWritesItemsThatExpire() {
        CosmosContainer items = fresh(definition(-1));
        String body = """
                function (name) {
                    const items = getContext().getCollection();
                    const document = {id: name, pk: "p", ttl: 10};
                    console.log("makes " + name);
                    items.createDocument(items.getSelfLink(), document, (error, made) => {
                        if (error) throw error;
                        getContext().getResponse().setBody(made.id);
                    });
                }""";
        items.getScripts().createStoredProcedure(new CosmosStoredProcedureProperties("make", body));
        var make = items.getScripts().getStoredProcedure("make");
        var answer = make.execute(List.of("a"), inP().setScriptLoggingEnabled(true));
        assertEquals("\"a\"", answer.getResponseAsString());
        assertTrue(answer.getScriptLog().contains("makes a"), answer.getScriptLog());
        Server.advance(9);
        assertEquals(10, items.readItem("a", P, ObjectNode.class).getItem().get("ttl").intValue());
        refused(400, () -> make.execute(List.of("a"), inP()));
        Server.advance(1);
        refused(404, () -> items.readItem("a", P, ObjectNode.class));
    }

    /** What a procedure wrote before it failed is not there. */
    @Test
    void aStoredProcedureFailsAsAWhole() {
        CosmosContainer items = fresh(definition(null));
        String body = """
                function () {
                    const items = getContext().getCollection();
                    items.createDocument(items.getSelfLink(), {id: "a", pk: "p"}, () => { throw new Error("no"); });
                }""";
        items.getScripts().createStoredProcedure(new CosmosStoredProcedureProperties("fail", body));
        refused(400, () -> items.getScripts().getStoredProcedure("fail").execute(List.of(), inP()));
        assertEquals(0, items.readAllItems(P, ObjectNode.class).stream().count());
    }

    @Test
    void storedProceduresAreKept() {
        var scripts = fresh(definition(null)).getScripts();
        var made = scripts.createStoredProcedure(
                new CosmosStoredProcedureProperties("one", "function () { getContext().getResponse().setBody(1); }"));
        refused(409, () -> scripts.createStoredProcedure(made.getProperties()));
        var one = scripts.getStoredProcedure("one");
        one.replace(one.read().getProperties().setBody("function () { getContext().getResponse().setBody(2); }"));
        assertEquals("2", one.execute(List.of(), inP()).getResponseAsString());
        assertEquals(List.of("one"), ids(scripts.readAllStoredProcedures(), CosmosStoredProcedureProperties::getId));
        var text = "SELECT * FROM s WHERE s.id = 'one'";
        var found = scripts.queryStoredProcedures(text, new CosmosQueryRequestOptions());
        assertEquals(List.of("one"), ids(found, CosmosStoredProcedureProperties::getId));
        one.delete();
        refused(404, () -> one.execute(List.of(), inP()));
    }

    @Test
    void triggers() {
        CosmosContainer items = fresh(definition(-1));
        var scripts = items.getScripts();
        String stamps = """
                function () {
                    const request = getContext().getRequest();
                    const item = request.getBody();
                    item.ttl = 10;
                    request.setBody(item);
                }""";
        String counts = """
                function () {
                    const items = getContext().getCollection();
                    const made = getContext().getResponse().getBody();
                    items.createDocument(items.getSelfLink(), {id: "after " + made.id, pk: "p"});
                }""";
        scripts.createTrigger(new CosmosTriggerProperties("stamps", stamps)
                .setTriggerType(TriggerType.PRE)
                .setTriggerOperation(TriggerOperation.CREATE));
        scripts.createTrigger(new CosmosTriggerProperties("counts", counts)
                .setTriggerType(TriggerType.POST)
                .setTriggerOperation(TriggerOperation.ALL));
        var both = new CosmosItemRequestOptions()
                .setPreTriggerInclude(List.of("stamps"))
                .setPostTriggerInclude(List.of("counts"));
        items.createItem(item("1", "p"), P, both);
        assertEquals(10, items.readItem("1", P, ObjectNode.class).getItem().get("ttl").intValue());
        assertEquals(200, items.readItem("after 1", P, ObjectNode.class).getStatusCode());
        Server.advance(10);
        refused(404, () -> items.readItem("1", P, ObjectNode.class));
        assertEquals(
                List.of("counts", "stamps"),
                ids(scripts.readAllTriggers(), CosmosTriggerProperties::getId).stream().sorted().toList());
        var stamp = scripts.getTrigger("stamps");
        stamp.replace(stamp.read().getProperties().setTriggerOperation(TriggerOperation.REPLACE));
        assertEquals(TriggerOperation.REPLACE, stamp.read().getProperties().getTriggerOperation());
        stamp.delete();
        refused(404, stamp::read);
        refused(400, () -> items.createItem(item("2", "p"), P, both));
    }

    @Test
    void functions() {
        CosmosContainer items = fresh(definition(null));
        var scripts = items.getScripts();
        scripts.createUserDefinedFunction(
                new CosmosUserDefinedFunctionProperties("twice", "function (n) { return 2 * n; }"));
        items.createItem(item("1", "p").put("n", 21));
        var rows = items.queryItems(
                "SELECT VALUE udf.twice(c.n) FROM c", new CosmosQueryRequestOptions(), Integer.class);
        assertEquals(List.of(42), rows.stream().toList());
        var twice = scripts.getUserDefinedFunction("twice");
        twice.replace(twice.read().getProperties().setBody("function (n) { return n; }"));
        assertEquals(List.of(21), rows.stream().toList());
        assertEquals(
                List.of("twice"),
                ids(scripts.readAllUserDefinedFunctions(), CosmosUserDefinedFunctionProperties::getId));
        twice.delete();
        refused(400, () -> rows.stream().toList());
    }
}
