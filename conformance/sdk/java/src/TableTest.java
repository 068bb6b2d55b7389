import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.azure.core.credential.AzureNamedKeyCredential;
import com.azure.core.credential.AzureSasCredential;
import com.azure.core.exception.HttpResponseException;
import com.azure.core.http.policy.FixedDelayOptions;
import com.azure.core.http.policy.RetryOptions;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.TableServiceClientBuilder;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableEntity;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.function.Executable;

/** What the tests share: clients, a new table for every test, and refusals. */
abstract class TableTest extends ServerTest {
    static final String STALE = "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\"";
    private static final Set<String> SYSTEM_PROPERTIES = Set.of("PartitionKey", "RowKey", "Timestamp");
    private static final Pattern CODE = Pattern.compile("code\"?[:>]\"?(\\w+)");

    final TableServiceClient service = serviceAt(ENDPOINT, ACCOUNT, KEY);
    TableClient table;

    @BeforeEach
    void createTable() {
        table = service.createTable(uniqueName());
    }

    @AfterEach
    void deleteTable() {
        table.deleteTable();
    }

    static TableServiceClientBuilder builder() {
        return new TableServiceClientBuilder()
            .retryOptions(new RetryOptions(new FixedDelayOptions(0, Duration.ofMillis(1))));
    }

    static TableServiceClient serviceAt(String endpoint, String account, String key) {
        return builder().endpoint(endpoint).credential(new AzureNamedKeyCredential(account, key)).buildClient();
    }

    static TableServiceClient serviceWithSas(String token) {
        return builder().endpoint(ENDPOINT).credential(new AzureSasCredential(token)).buildClient();
    }

    TableClient tableWithSas(String token) {
        return serviceWithSas(token).getTableClient(table.getTableName());
    }

    /** An entity of partition "p" with properties given as name, value, name, value. */
    static TableEntity entity(String row, Object... namesAndValues) {
        return entityOf("p", row, namesAndValues);
    }

    static TableEntity entityOf(String partition, String row, Object... namesAndValues) {
        TableEntity entity = new TableEntity(partition, row);
        for (int index = 0; index < namesAndValues.length; index += 2) {
            entity.addProperty((String) namesAndValues[index], namesAndValues[index + 1]);
        }
        return entity;
    }

    /** The properties that were not added by the server. */
    static Map<String, Object> propertiesOf(TableEntity stored) {
        Map<String, Object> properties = new LinkedHashMap<>(stored.getProperties());
        properties.keySet().removeIf(name -> SYSTEM_PROPERTIES.contains(name) || name.contains("odata."));
        return properties;
    }

    List<String> rowKeys() {
        return rowKeys(table, new ListEntitiesOptions());
    }

    static List<String> rowKeys(TableClient from, ListEntitiesOptions options) {
        return from.listEntities(options, null, null).stream().map(TableEntity::getRowKey).toList();
    }

    /** The call is refused with this status and code. */
    static void refused(int status, String code, Executable call) {
        // The client has several kinds of exception, and reads the code only in some of them.
        HttpResponseException error = assertThrows(HttpResponseException.class, call);
        Matcher found = CODE.matcher(String.valueOf(error.getMessage()));
        String seen = found.find() ? found.group(1) : error.getMessage();
        assertEquals(status + " " + code, error.getResponse().getStatusCode() + " " + seen);
    }
}
