import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.core.credential.AzureNamedKeyCredential;
import com.azure.core.http.rest.PagedResponse;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.models.ListTablesOptions;
import com.azure.data.tables.models.TableItem;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TablesTest extends TableTest {
    private List<List<String>> pages(String filter, Integer top) {
        return service.listTables(new ListTablesOptions().setFilter(filter).setTop(top), null, null)
            .streamByPage()
            .map(page -> page.getValue().stream().map(TableItem::getName).toList())
            .toList();
    }

    @Test
    void aTableIsListedUntilItIsDeleted() {
        String name = uniqueName();
        String filter = "TableName eq '" + name + "'";
        service.createTable(name);
        assertEquals(List.of(List.of(name)), pages(filter, null));
        service.deleteTable(name);
        assertEquals(List.of(List.of()), pages(filter, null));
        service.deleteTable(name); // The client hides the 404.
    }

    @Test
    void aSecondCreateIsRefused() {
        refused(409, "TableAlreadyExists", () -> service.createTable(table.getTableName()));
        refused(409, "TableAlreadyExists", () -> service.createTable(table.getTableName().toUpperCase()));
        assertEquals(409, service.createTableIfNotExistsWithResponse(table.getTableName(), null, null).getStatusCode());
    }

    @ParameterizedTest
    @CsvSource({"my_table, InvalidResourceName", "1table, InvalidResourceName", "ab, OutOfRangeInput", "tables, InvalidInput"})
    void badNames(String name, String code) {
        refused(400, code, () -> service.createTable(name));
    }

    @Test
    void tablesArePaged() {
        String prefix = uniqueName();
        List<String> names = List.of(prefix + "a", prefix + "b", prefix + "c");
        names.forEach(service::createTable);
        String filter = "TableName ge '" + prefix + "' and TableName lt '" + prefix + "{'";
        assertEquals(List.of(names.subList(0, 2), names.subList(2, 3)), pages(filter, 2));
        var query = service.listTables(new ListTablesOptions().setFilter(filter).setTop(2), null, null);
        String token = query.iterableByPage().iterator().next().getContinuationToken();
        PagedResponse<TableItem> second = query.iterableByPage(token).iterator().next();
        assertEquals(names.subList(2, 3), second.getValue().stream().map(TableItem::getName).toList());
        names.forEach(service::deleteTable);
    }

    @Test
    void connectionString() {
        table.createEntity(entity("r", "A", 7));
        String text = "DefaultEndpointsProtocol=http;AccountName=" + ACCOUNT + ";AccountKey=" + KEY
            + ";TableEndpoint=" + ENDPOINT + ";TableSecondaryEndpoint=" + SECONDARY + ";";
        TableClient client = builder().connectionString(text).buildClient().getTableClient(table.getTableName());
        assertEquals(7, client.getEntity("p", "r").getProperty("A"));
    }

    @Test
    void wrongKey() {
        for (var credential : List.of(
            new AzureNamedKeyCredential(ACCOUNT, WRONG_KEY), new AzureNamedKeyCredential("somebodyelse", KEY))) {
            TableClient stranger = builder().endpoint(ENDPOINT).credential(credential).buildClient()
                .getTableClient(table.getTableName());
            refused(403, "AuthenticationFailed", () -> stranger.getEntity("p", "r"));
            refused(403, "AuthenticationFailed", () -> stranger.createEntity(entity("r")));
            refused(403, "AuthenticationFailed", () -> stranger.listEntities().stream().toList());
        }
        assertEquals(List.of(), rowKeys());
    }
}
