import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.azure.data.tables.TableClient;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.ListTablesOptions;
import com.azure.data.tables.models.TableAccessPolicies;
import com.azure.data.tables.models.TableAccessPolicy;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableEntityUpdateMode;
import com.azure.data.tables.models.TableSignedIdentifier;
import com.azure.data.tables.sas.TableAccountSasPermission;
import com.azure.data.tables.sas.TableAccountSasResourceType;
import com.azure.data.tables.sas.TableAccountSasService;
import com.azure.data.tables.sas.TableAccountSasSignatureValues;
import com.azure.data.tables.sas.TableSasIpRange;
import com.azure.data.tables.sas.TableSasPermission;
import com.azure.data.tables.sas.TableSasProtocol;
import com.azure.data.tables.sas.TableSasSignatureValues;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class SasTest extends TableTest {
    private static final OffsetDateTime LATER = OffsetDateTime.parse("2036-01-01T00:00:00Z");

    private static TableSasSignatureValues values(String permissions) {
        return new TableSasSignatureValues(inMinutes(10), TableSasPermission.parse(permissions));
    }

    private static TableAccountSasSignatureValues accountValues(String permissions, String resources) {
        return new TableAccountSasSignatureValues(
            inMinutes(10), TableAccountSasPermission.parse(permissions),
            TableAccountSasService.parse("t"), TableAccountSasResourceType.parse(resources));
    }

    private TableClient withRights(String permissions) {
        return tableWithSas(table.generateSas(values(permissions)));
    }

    private TableClient withAccountRights(String permissions, String resources) {
        return tableWithSas(service.generateAccountSas(accountValues(permissions, resources)));
    }

    static Stream<Arguments> operations() {
        return Stream.of(
            operation("get", "r", client -> client.getEntity("p", "old")),
            operation("query", "r", client -> client.listEntities().stream().toList()),
            operation("insert", "a", client -> client.createEntity(entity("new"))),
            operation("upsert", "au", client -> client.upsertEntity(entity("new"))),
            operation("merge", "u", client -> client.updateEntity(entity("old"), TableEntityUpdateMode.MERGE)),
            operation("replace", "u", client -> client.updateEntity(entity("old"), TableEntityUpdateMode.REPLACE)),
            operation("delete", "d", client -> client.deleteEntity("p", "old")));
    }

    private static Arguments operation(String name, String needed, Consumer<TableClient> call) {
        return arguments(name, needed, call);
    }

    @ParameterizedTest(name = "{0} needs {1}")
    @MethodSource("operations")
    void tableRights(String name, String needed, Consumer<TableClient> call) {
        table.createEntity(entity("old"));
        for (String missing : needed.split("")) {
            TableClient client = withRights("raud".replace(missing, ""));
            refused(403, "AuthorizationPermissionMismatch", () -> call.accept(client));
        }
        call.accept(withRights(needed));
    }

    @ParameterizedTest(name = "{0} needs {1}")
    @MethodSource("operations")
    void accountRights(String name, String needed, Consumer<TableClient> call) {
        table.createEntity(entity("old"));
        refused(403, "AuthorizationPermissionMismatch", () -> call.accept(withAccountRights("wl", "o")));
        refused(403, "AuthorizationResourceTypeMismatch", () -> call.accept(withAccountRights("raud", "sc")));
        call.accept(withAccountRights(needed, "o"));
    }

    @Test
    void tablesByAccountSas() {
        String name = uniqueName();
        serviceWithSas(service.generateAccountSas(accountValues("c", "c"))).createTable(name);
        var options = new ListTablesOptions().setFilter("TableName eq '" + name + "'");
        var lister = serviceWithSas(service.generateAccountSas(accountValues("l", "c")));
        assertEquals(1, lister.listTables(options, null, null).stream().count());
        refused(403, "AuthorizationPermissionMismatch", () -> lister.deleteTable(name));
        serviceWithSas(service.generateAccountSas(accountValues("d", "c"))).deleteTable(name);
    }

    static Stream<Arguments> refusedTokens() {
        return Stream.of(
            token("expired", values -> values.setExpiryTime(inMinutes(-1)), "AuthenticationFailed"),
            token("not yet valid", values -> values.setStartTime(inMinutes(5)), "AuthenticationFailed"),
            token("https only", values -> values.setProtocol(TableSasProtocol.HTTPS_ONLY), "AuthorizationProtocolMismatch"),
            token("another address", values -> values.setSasIpRange(TableSasIpRange.parse("203.0.113.1")), "AuthorizationSourceIPMismatch"),
            token("unknown policy", values -> new TableSasSignatureValues("nobody"), "AuthenticationFailed"));
    }

    private static Arguments token(String name, UnaryOperator<TableSasSignatureValues> change, String code) {
        return arguments(name, change, code);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("refusedTokens")
    void refusedTokens(String name, UnaryOperator<TableSasSignatureValues> change, String code) {
        TableClient client = tableWithSas(table.generateSas(change.apply(values("r"))));
        refused(403, code, () -> client.listEntities().stream().toList());
    }

    @Test
    void anotherTable() {
        TableClient other = service.createTable(uniqueName());
        TableClient client = tableWithSas(other.generateSas(values("r")));
        refused(403, "AuthorizationFailure", () -> client.listEntities().stream().toList());
        other.deleteTable();
    }

    @Test
    void keyRange() {
        for (String partition : List.of("p1", "p2", "p3")) {
            table.createEntity(entityOf(partition, "a"));
            table.createEntity(entityOf(partition, "b"));
        }
        TableClient client = tableWithSas(table.generateSas(values("raud")
            .setStartPartitionKey("p1").setStartRowKey("b").setEndPartitionKey("p2").setEndRowKey("a")));
        List<String> found = client.listEntities().stream().map(each -> each.getPartitionKey() + each.getRowKey()).toList();
        assertEquals(List.of("p1b", "p2a"), found);
        client.upsertEntity(entityOf("p2", "a", "A", 1));
        refused(403, "AuthorizationFailure", () -> client.upsertEntity(entityOf("p2", "b", "A", 1)));
        refused(403, "AuthorizationFailure", () -> client.createEntity(entityOf("p1", "a1")));
        refused(403, "AuthorizationFailure", () -> client.deleteEntity("p3", "a"));
        assertEquals(6, rowKeys(table, new ListEntitiesOptions()).size());
    }

    private static TableSignedIdentifier policy(String id, String permissions) {
        return new TableSignedIdentifier(id)
            .setAccessPolicy(new TableAccessPolicy().setExpiresOn(LATER).setPermissions(permissions));
    }

    @Test
    void accessPolicies() {
        table.createEntity(entity("r"));
        assertNull(table.getAccessPolicies().getIdentifiers());
        table.setAccessPolicies(List.of(policy("reader", "r"), policy("writer", "au")));
        TableAccessPolicies stored = table.getAccessPolicies();
        assertEquals(List.of("reader", "writer"), stored.getIdentifiers().stream().map(TableSignedIdentifier::getId).toList());
        assertEquals("au", stored.getIdentifiers().get(1).getAccessPolicy().getPermissions());
        assertEquals(LATER, stored.getIdentifiers().get(0).getAccessPolicy().getExpiresOn());

        TableClient reader = tableWithSas(table.generateSas(new TableSasSignatureValues("reader")));
        assertEquals(List.of("r"), reader.listEntities().stream().map(TableEntity::getRowKey).toList());
        refused(403, "AuthorizationPermissionMismatch", () -> reader.createEntity(entity("new")));
        table.setAccessPolicies(List.of());
        refused(403, "AuthenticationFailed", () -> reader.listEntities().stream().toList());
    }

    @Test
    void atMostFivePolicies() {
        List<TableSignedIdentifier> six = IntStream.range(0, 6).mapToObj(number -> policy("id" + number, "r")).toList();
        refused(400, "InvalidXmlDocument", () -> table.setAccessPolicies(six));
        table.setAccessPolicies(six.subList(0, 5));
        assertEquals(5, table.getAccessPolicies().getIdentifiers().size());
    }
}
