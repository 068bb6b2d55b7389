import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.http.HttpHeaderName;
import com.azure.core.util.BinaryData;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import com.azure.storage.blob.BlobClient;
import com.azure.storage.blob.BlobContainerClient;
import com.azure.storage.queue.QueueClient;
import com.azure.storage.queue.models.QueueMessageItem;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class TokensTest extends IdentityTest {
    @Test
    void tables() {
        TableClient table = tables(named("contributor")).createTable(uniqueName());
        table.createEntity(new TableEntity("p", "1").addProperty("Name", "Ada"));
        table.submitTransaction(List.of(
            new TableTransactionAction(TableTransactionActionType.UPSERT_MERGE, new TableEntity("p", "2"))));
        assertEquals(2, table.listEntities().stream().count());
        table.deleteTable();
    }

    @Test
    void queues() {
        QueueClient queue = queues(named("contributor")).createQueue(uniqueName());
        queue.sendMessage("work");
        QueueMessageItem message = queue.receiveMessage();
        assertEquals("work", message.getBody().toString());
        queue.deleteMessage(message.getMessageId(), message.getPopReceipt());
        queue.delete();
    }

    @Test
    void blobs() {
        BlobContainerClient container = blobs(named("contributor")).createBlobContainer(uniqueName());
        BlobClient blob = container.getBlobClient("a.txt");
        blob.upload(BinaryData.fromString("content"));
        assertEquals("content", blob.downloadContent().toString());
        container.delete();
    }

    @ParameterizedTest
    @ValueSource(strings = {"table", "queue", "blob"})
    void readersRead(String service) throws Throwable {
        read(service, named("reader")).execute();
        refused(403, DENIED, write(service, named("reader")));
    }

    @ParameterizedTest
    @ValueSource(strings = {"table", "queue", "blob"})
    void withoutARoleNothingIsAllowed(String service) {
        refused(403, DENIED, read(service, named("nobody")));
        refused(403, DENIED, write(service, named("nobody")));
    }

    @ParameterizedTest
    @ValueSource(strings = {"table", "queue", "blob"})
    void rolesOfAGroupCount(String service) throws Throwable {
        read(service, named("member")).execute();
        write(service, named("member")).execute();
    }

    static Stream<Arguments> badTokens() {
        List<Arguments> cases = new ArrayList<>();
        for (JsonNode refused : SERVER.get("refused")) {
            for (String service : List.of("table", "queue", "blob")) {
                cases.add(Arguments.of(service, refused.get("name").asText(), refused));
            }
        }
        return cases.stream();
    }

    @ParameterizedTest(name = "{0} {1}")
    @MethodSource
    void badTokens(String service, String name, JsonNode expected) {
        var refusal = refused(401, "InvalidAuthenticationInfo", read(service, fixed(expected.get("token").asText())));
        var response = refusal.getResponse();
        assertEquals(expected.get("challenge").asText(), response.getHeaderValue(HttpHeaderName.WWW_AUTHENTICATE));
        if (!service.equals("table")) {
            String body = response.getBodyAsString().block();
            assertTrue(body.contains("<AuthenticationErrorDetail>" + expected.get("detail").asText() + "<"), body);
        }
    }
}
