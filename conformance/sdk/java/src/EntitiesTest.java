import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.azure.data.tables.TableClient;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableEntityUpdateMode;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class EntitiesTest extends TableTest {
    @Test
    void insertAndGet() {
        table.createEntity(entity("r", "A", 1));
        TableEntity stored = table.getEntity("p", "r");
        assertEquals(Map.of("A", 1), propertiesOf(stored));
        assertEquals(stored.getETag(), table.listEntities().iterator().next().getETag());
        refused(409, "EntityAlreadyExists", () -> table.createEntity(entity("r")));
        refused(404, "ResourceNotFound", () -> table.getEntity("p", "gone"));
        refused(404, "TableNotFound", () -> service.getTableClient(uniqueName()).getEntity("p", "r"));
        refused(404, "TableNotFound", () -> service.getTableClient(uniqueName()).createEntity(entity("r")));
    }

    @ParameterizedTest
    @EnumSource(TableEntityUpdateMode.class)
    void upsert(TableEntityUpdateMode mode) {
        table.upsertEntityWithResponse(entity("r", "A", 1, "B", 2), mode, null, null);
        assertEquals(Map.of("A", 1, "B", 2), propertiesOf(table.getEntity("p", "r")));
        table.upsertEntityWithResponse(entity("r", "B", 3), mode, null, null);
        Map<String, Object> expected = mode == TableEntityUpdateMode.MERGE ? Map.of("A", 1, "B", 3) : Map.of("B", 3);
        assertEquals(expected, propertiesOf(table.getEntity("p", "r")));
    }

    @ParameterizedTest
    @EnumSource(TableEntityUpdateMode.class)
    void update(TableEntityUpdateMode mode) {
        refused(404, "ResourceNotFound", () -> table.updateEntity(entity("r"), mode));
        table.createEntity(entity("r", "A", 1, "B", 2));
        TableEntity first = table.getEntity("p", "r");
        table.updateEntity(entity("r", "B", 3), mode);
        TableEntity second = table.getEntity("p", "r");
        Map<String, Object> expected = mode == TableEntityUpdateMode.MERGE ? Map.of("A", 1, "B", 3) : Map.of("B", 3);
        assertEquals(expected, propertiesOf(second));
        assertNotEquals(first.getETag(), second.getETag());
        refused(412, "UpdateConditionNotSatisfied", () -> table.updateEntityWithResponse(first, mode, true, null, null));
        table.updateEntityWithResponse(second, mode, true, null, null);
        assertNotEquals(second.getETag(), table.getEntity("p", "r").getETag());
    }

    @Test
    void delete() {
        table.createEntity(entity("r"));
        TableEntity first = table.getEntity("p", "r");
        table.upsertEntity(entity("r"));
        refused(412, "UpdateConditionNotSatisfied", () -> table.deleteEntityWithResponse(first, true, null, null));
        table.deleteEntityWithResponse(table.getEntity("p", "r"), true, null, null);
        assertEquals(List.of(), rowKeys());
        table.deleteEntity("p", "r"); // The client hides the 404.
    }

    @Test
    void select() {
        table.createEntity(entity("r", "A", 1, "B", 2));
        TableEntity stored = table.getEntityWithResponse("p", "r", List.of("A", "Missing"), null, null).getValue();
        assertEquals(1, stored.getProperty("A"));
        assertNull(stored.getProperty("B"));
        assertEquals(table.getEntity("p", "r").getETag(), stored.getETag());
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", "a b", "it's", "''", "say \"x\"", "100%", "a%20b%2Fc", "a+b",
        "a,b=c(d)e;f:g@h&i$j!k*l~m|n^o`p[q]r{s}t<u>v", "grüße ñ", "日本語", "🦀𝄞",
    })
    void keys(String key) {
        table.createEntity(entityOf(key, key, "A", 1));
        table.updateEntity(entityOf(key, key, "B", 2), TableEntityUpdateMode.MERGE);
        assertEquals(Map.of("A", 1, "B", 2), propertiesOf(table.getEntity(key, key)));
        String quoted = "'" + key.replace("'", "''") + "'";
        String filter = "PartitionKey eq " + quoted + " and RowKey eq " + quoted;
        assertEquals(List.of(key), rowKeys(table, new ListEntitiesOptions().setFilter(filter)));
        table.deleteEntity(key, key);
        assertEquals(List.of(), rowKeys());
    }

    @ParameterizedTest
    @ValueSource(strings = {"/", "\\", "#", "?", "\t", "\u007f"})
    void forbiddenKeys(String character) {
        refused(400, "OutOfRangeInput", () -> table.createEntity(entity("a" + character + "b")));
    }

    // Not a number and the infinities are missing: this client sends them as strings.
    static Stream<Arguments> values() {
        return Stream.of(
            arguments("int32 smallest", Integer.MIN_VALUE),
            arguments("int32 largest", Integer.MAX_VALUE),
            arguments("int64 smallest", Long.MIN_VALUE),
            arguments("int64 largest", Long.MAX_VALUE),
            arguments("int64 small", 1L),
            arguments("double", 0.5),
            arguments("double whole", 3.0),
            arguments("double large whole", 1e20),
            arguments("double huge", 1e308),
            arguments("double largest", Double.MAX_VALUE),
            arguments("double tiny", Double.MIN_VALUE),
            arguments("true", true),
            arguments("false", false),
            arguments("guid", UUID.fromString("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9")),
            arguments("string empty", ""),
            arguments("string like a number", "12"),
            arguments("string odd", "it's \"\\ \t\n\u0001 <&>"),
            arguments("string scripts", "日本語 עברית 🦀𝄞"),
            arguments("string long", "ß".repeat(32768)),
            arguments("datetime ticks", OffsetDateTime.parse("2026-01-02T03:04:05.1234567Z")),
            arguments("datetime whole", OffsetDateTime.parse("2026-01-02T03:04:05Z")),
            arguments("datetime first", OffsetDateTime.parse("1601-01-01T00:00:00Z")),
            arguments("datetime last", OffsetDateTime.parse("9999-12-31T23:59:59.9999999Z")));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("values")
    void values(String name, Object value) {
        table.createEntity(entity("r", "Value", value));
        assertEquals(value, table.getEntity("p", "r").getProperty("Value"));
        assertEquals(value, table.listEntities().iterator().next().getProperty("Value"));
    }

    @Test
    void binary() {
        byte[] bytes = new byte[256];
        IntStream.range(0, 256).forEach(index -> bytes[index] = (byte) index);
        table.createEntity(entity("r", "Value", bytes, "Empty", new byte[0]));
        TableEntity stored = table.getEntity("p", "r");
        assertArrayEquals(bytes, (byte[]) stored.getProperty("Value"));
        assertArrayEquals(new byte[0], (byte[]) stored.getProperty("Empty"));
    }

    @Test
    void nullIsNotStored() {
        table.createEntity(entity("r", "A", 1, "B", null));
        table.updateEntity(entity("r", "A", null, "C", 2), TableEntityUpdateMode.MERGE);
        assertEquals(Map.of("A", 1, "C", 2), propertiesOf(table.getEntity("p", "r")));
    }

    static Stream<Arguments> limits() {
        Map<String, Object> many = new HashMap<>();
        Map<String, Object> large = new HashMap<>();
        IntStream.range(0, 253).forEach(index -> many.put("P" + index, 1));
        IntStream.range(0, 16).forEach(index -> large.put("P" + index, "x".repeat(32768)));
        return Stream.of(
            arguments("PropertyValueTooLarge", Map.of("A", "x".repeat(32769))),
            arguments("TooManyProperties", many),
            arguments("PropertyNameTooLong", Map.of("n".repeat(256), 1)),
            arguments("EntityTooLarge", large),
            arguments("OutOfRangeInput", Map.of("A", OffsetDateTime.parse("1600-12-31T23:59:59Z"))));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("limits")
    void limits(String code, Map<String, Object> properties) {
        refused(400, code, () -> table.createEntity(entity("r").setProperties(properties)));
        assertEquals(List.of(), rowKeys());
    }

    @Test
    void pages() {
        List<String> rows = IntStream.range(0, 2500).mapToObj(number -> String.format("r %04d", number)).toList();
        for (int start = 0; start < rows.size(); start += 100) {
            BatchTest.insertAll(table, rows.subList(start, start + 100));
        }
        assertEquals(List.of(1000, 1000, 500), pageSizes(null));
        assertEquals(List.of(500, 500, 500, 500, 500), pageSizes(500));
        assertEquals(rows, rowKeys());

        // One page at a time, each asked for by a new client with the token of the one before.
        List<String> seen = new ArrayList<>();
        String token = null;
        do {
            TableClient client = serviceAt(ENDPOINT, ACCOUNT, KEY).getTableClient(table.getTableName());
            var pages = client.listEntities(new ListEntitiesOptions().setTop(900), null, null);
            var page = (token == null ? pages.iterableByPage() : pages.iterableByPage(token)).iterator().next();
            page.getValue().forEach(found -> seen.add(found.getRowKey()));
            token = page.getContinuationToken();
        } while (token != null);
        assertEquals(rows, seen);
        refused(400, "InvalidInput", () -> pageSizes(1001));
    }

    private List<Integer> pageSizes(Integer top) {
        return table.listEntities(new ListEntitiesOptions().setTop(top), null, null)
            .streamByPage().map(page -> page.getValue().size()).toList();
    }

    static Stream<Arguments> filters() {
        return Stream.of(
            arguments("", "abc"),
            arguments("PartitionKey eq 'p'", "ab"),
            arguments("RowKey gt 'a'", "bc"),
            arguments("Int eq 1 or RowKey eq 'c'", "ac"),
            arguments("not (Int ge 2)", "ac"),
            arguments("Text eq 'it''s'", "a"),
            arguments("Text eq '日本 +&='", "b"),
            arguments("Flag eq true", "a"),
            arguments("Real lt 2.0", "a"),
            arguments("Long eq 9007199254740993L", "b"),
            arguments("Id eq guid'0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9'", "c"),
            arguments("When ge datetime'2026-03-10T12:00:00.1234567Z'", "c"),
            arguments("Data eq X'0102ff'", "c"));
    }

    @ParameterizedTest(name = "filter: {0}")
    @MethodSource("filters")
    void filters(String filter, String expected) {
        table.createEntity(entity("a", "Int", 1, "Text", "it's", "Flag", true, "Real", 1.5));
        table.createEntity(entity("b", "Int", 2, "Text", "日本 +&=", "Flag", false, "Long", 9007199254740993L));
        table.createEntity(entityOf("q", "c", "Id", UUID.fromString("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"),
            "When", OffsetDateTime.parse("2026-03-10T12:00:00.1234567Z"), "Data", new byte[] {1, 2, -1}));
        assertEquals(expected, String.join("", rowKeys(table, new ListEntitiesOptions().setFilter(filter))));
    }

    @Test
    void badFilters() {
        refused(400, "InvalidInput", () -> rowKeys(table, new ListEntitiesOptions().setFilter("aaa bbb ccc")));
        refused(400, "InvalidInput", () -> rowKeys(table, new ListEntitiesOptions().setFilter("A eq null")));
        refused(501, "NotImplemented", () -> rowKeys(table, new ListEntitiesOptions().setFilter("startswith(A,'a')")));
    }
}
