import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.exception.HttpResponseException;
import com.azure.storage.queue.QueueClient;
import com.azure.storage.queue.models.QueueAnalyticsLogging;
import com.azure.storage.queue.models.QueueItem;
import com.azure.storage.queue.models.QueueRetentionPolicy;
import com.azure.storage.queue.models.QueueServiceProperties;
import com.azure.storage.queue.models.QueuesSegmentOptions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class QueuesTest extends QueueTest {
    @Test
    void createAndDelete() {
        QueueClient other = service.getQueueClient(uniqueName());
        other.createWithResponse(Map.of("team", "core"), null, null);
        assertEquals(204, other.createWithResponse(Map.of("team", "core"), null, null).getStatusCode());
        refused(409, "QueueAlreadyExists", other::create);
        assertEquals(Map.of("team", "core"), other.getProperties().getMetadata());
        other.delete();
        refused(404, "QueueNotFound", other::getProperties);
        refused(404, "QueueNotFound", other::delete);
        assertEquals(false, other.deleteIfExists());
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource({"Upper, InvalidResourceName", "a--b, InvalidResourceName", "ab, OutOfRangeInput"})
    void badNames(String name, String code) {
        refused(400, code, () -> service.createQueue(name));
    }

    @Test
    void metadata() {
        queue.setMetadata(Map.of("team", "two words"));
        assertEquals(Map.of("team", "two words"), queue.getProperties().getMetadata());
        refused(400, "InvalidMetadata", () -> queue.setMetadata(Map.of("1bad", "x")));
        queue.setMetadata(null);
        assertEquals(Map.of(), queue.getProperties().getMetadata());
    }

    @Test
    void listInPages() {
        String prefix = uniqueName();
        List<String> names = List.of(prefix + "-0", prefix + "-1", prefix + "-2");
        names.forEach(service::createQueue);
        var options = new QueuesSegmentOptions().setPrefix(prefix).setIncludeMetadata(true);
        assertEquals(names, service.listQueues(options, null, null).stream().map(QueueItem::getName).toList());
        List<Integer> sizes = new ArrayList<>();
        service.listQueues(options.setMaxResultsPerPage(2), null, null).iterableByPage()
            .forEach(page -> sizes.add(page.getValue().size()));
        assertEquals(List.of(2, 1), sizes);
        names.forEach(service::deleteQueue);
    }

    @Test
    void wrongKey() {
        refused(403, "AuthenticationFailed",
            () -> serviceAt(ENDPOINT, WRONG_KEY).getQueueClient(queue.getQueueName()).getProperties());
    }

    private static QueueServiceProperties logging(boolean on) {
        return new QueueServiceProperties().setAnalyticsLogging(new QueueAnalyticsLogging().setVersion("1.0")
            .setRead(on).setWrite(on).setDelete(on)
            .setRetentionPolicy(new QueueRetentionPolicy().setEnabled(on).setDays(on ? 7 : null)));
    }

    @Test
    void serviceProperties() {
        // The properties belong to the whole account: another run may have written between our two steps.
        boolean read = false;
        for (int attempt = 0; attempt < 5 && !read; attempt++) {
            service.setProperties(logging(true));
            read = service.getProperties().getAnalyticsLogging().isRead();
        }
        assertTrue(read);
        service.setProperties(logging(false));
    }

    @Test
    void statistics() {
        // The client wants a root element QueueServiceStatistics, where the service sends StorageServiceStats.
        var error = assertThrows(HttpResponseException.class, () -> serviceAt(SECONDARY, KEY).getStatistics());
        assertEquals(200, error.getResponse().getStatusCode());
        assertTrue(String.valueOf(error.getCause()).contains("StorageServiceStats"), error.toString());
    }
}
