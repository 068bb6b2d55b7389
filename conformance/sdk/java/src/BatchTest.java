import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.azure.data.tables.TableClient;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableServiceException;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionResponse;
import com.azure.data.tables.models.TableTransactionActionType;
import com.azure.data.tables.models.TableTransactionFailedException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class BatchTest extends TableTest {
    private static TableTransactionAction action(TableTransactionActionType type, TableEntity entity) {
        return new TableTransactionAction(type, entity);
    }

    private static TableTransactionAction insert(String row) {
        return action(TableTransactionActionType.CREATE, entity(row));
    }

    static void insertAll(TableClient table, List<String> rows) {
        table.submitTransaction(rows.stream().map(BatchTest::insert).toList());
    }

    @Test
    void everyKindOfOperation() {
        Stream.of("a", "b", "c", "d", "e").forEach(row -> table.createEntity(entity(row, "A", 1, "B", 1)));
        var answers = table.submitTransaction(List.of(
            action(TableTransactionActionType.CREATE, entity("new", "A", 2)),
            action(TableTransactionActionType.UPDATE_MERGE, entity("a", "A", 2)),
            action(TableTransactionActionType.UPDATE_REPLACE, entity("b", "A", 2)),
            action(TableTransactionActionType.UPSERT_MERGE, entity("c", "A", 2)),
            action(TableTransactionActionType.UPSERT_REPLACE, entity("d", "A", 2)),
            action(TableTransactionActionType.DELETE, entity("e")))).getTransactionActionResponses();
        assertEquals(Collections.nCopies(6, 204), answers.stream().map(TableTransactionActionResponse::getStatusCode).toList());
        Map<String, Object> merged = Map.of("A", 2, "B", 1);
        Map<String, Object> replaced = Map.of("A", 2);
        assertEquals(
            Map.of("a", merged, "b", replaced, "c", merged, "d", replaced, "new", replaced),
            table.listEntities().stream().collect(Collectors.toMap(TableEntity::getRowKey, TableTest::propertiesOf)));
    }

    @Test
    void aHundredOperationsAndNoMore() {
        List<String> rows = IntStream.range(0, 101).mapToObj(number -> String.format("%03d", number)).toList();
        var error = assertThrows(TableTransactionFailedException.class, () -> insertAll(table, rows));
        assertEquals("InvalidInput", error.getValue().getErrorCode().toString());
        assertEquals(List.of(), rowKeys());
        insertAll(table, rows.subList(0, 100));
        assertEquals(rows.subList(0, 100), rowKeys());
    }

    static Stream<Arguments> failures() {
        return Stream.of(
            arguments("EntityAlreadyExists", insert("old")),
            arguments("ResourceNotFound", action(TableTransactionActionType.UPDATE_MERGE, entity("gone"))),
            arguments("ResourceNotFound", action(TableTransactionActionType.UPDATE_REPLACE, entity("gone"))),
            arguments("ResourceNotFound", action(TableTransactionActionType.DELETE, entity("gone"))),
            arguments("InvalidDuplicateRow", insert("n0")),
            arguments("CommandsInBatchActOnDifferentPartitions",
                action(TableTransactionActionType.CREATE, entityOf("q", "r"))),
            arguments("PropertyValueTooLarge",
                action(TableTransactionActionType.CREATE, entity("big", "A", "x".repeat(32769)))),
            arguments("OutOfRangeInput", insert("a/b")));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("failures")
    void failsAsOne(String code, TableTransactionAction failing) {
        table.createEntity(entity("old"));
        List<TableTransactionAction> actions = new ArrayList<>(List.of(insert("n0"), insert("n1"), failing, insert("n2")));
        var error = assertThrows(TableTransactionFailedException.class, () -> table.submitTransaction(actions));
        assertEquals(code, error.getValue().getErrorCode().toString());
        assertEquals(2, error.getFailedTransactionActionIndex());
        assertEquals(List.of("old"), rowKeys());
    }

    @Test
    void staleETag() {
        table.createEntity(entity("r", "A", 1));
        TableEntity stale = table.getEntity("p", "r");
        table.upsertEntity(entity("r", "A", 2));
        var action = new TableTransactionAction(TableTransactionActionType.DELETE, stale, true);
        var error = assertThrows(
            TableTransactionFailedException.class, () -> table.submitTransaction(List.of(insert("new"), action)));
        assertEquals("UpdateConditionNotSatisfied", error.getValue().getErrorCode().toString());
        assertEquals(List.of("r"), rowKeys());
    }

    @Test
    void missingTable() {
        var error = assertThrows(
            TableServiceException.class, () -> insertAll(service.getTableClient(uniqueName()), List.of("r")));
        assertEquals("TableNotFound", error.getValue().getErrorCode().toString());
    }

    @Test
    void oddKeysAndText() {
        for (String row : List.of("it's", "a b", "100%", "a+b", "日本🦀")) {
            table.submitTransaction(List.of(action(TableTransactionActionType.CREATE, entity(row, "A", "--batch\r\n--"))));
            table.submitTransaction(List.of(action(TableTransactionActionType.UPDATE_MERGE, entity(row, "B", 1))));
            assertEquals(Map.of("A", "--batch\r\n--", "B", 1), propertiesOf(table.getEntity("p", row)));
            table.submitTransaction(List.of(action(TableTransactionActionType.DELETE, entity(row))));
        }
        assertTrue(rowKeys().isEmpty());
    }
}
