import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.azure.storage.common.StorageSharedKeyCredential;
import com.azure.storage.queue.QueueMessageEncoding;
import com.azure.storage.queue.models.QueueMessageItem;
import java.time.Duration;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class MessagesTest extends QueueTest {
    private List<QueueMessageItem> take(int number, int seconds) {
        return queue.receiveMessages(number, Duration.ofSeconds(seconds), null, null).stream().toList();
    }

    @Test
    void putTakeDelete() {
        var sent = queue.sendMessage("hello");
        assertEquals(sent.getInsertionTime().plusDays(7), sent.getExpirationTime());
        QueueMessageItem message = queue.receiveMessage();
        assertEquals(List.of(sent.getMessageId(), "hello", 1L),
            List.of(message.getMessageId(), message.getBody().toString(), message.getDequeueCount()));
        assertNotEquals(sent.getPopReceipt(), message.getPopReceipt());
        assertNull(queue.receiveMessage());
        queue.deleteMessage(message.getMessageId(), message.getPopReceipt());
        assertEquals(0, count());
    }

    @Test
    void missingQueue() {
        refused(404, "QueueNotFound", () -> service.getQueueClient(uniqueName()).sendMessage("x"));
    }

    @Test
    void batches() {
        IntStream.range(0, 40).forEach(number -> queue.sendMessage(String.valueOf(number)));
        List<String> bodies = Stream.concat(take(32, 300).stream(), take(32, 300).stream())
            .map(message -> message.getBody().toString()).toList();
        assertEquals(IntStream.range(0, 40).mapToObj(String::valueOf).toList(), bodies);
        refused(400, "OutOfRangeQueryParameterValue", () -> take(33, 30));
    }

    @Test
    void peek() {
        queue.sendMessage("one");
        for (int round = 0; round < 2; round++) {
            var message = queue.peekMessage();
            assertEquals("one 0", message.getBody() + " " + message.getDequeueCount());
        }
    }

    @Test
    void progress() {
        queue.sendMessage("step 0");
        QueueMessageItem message = queue.receiveMessage();
        String receipt = message.getPopReceipt();
        for (int step = 1; step < 4; step++) {
            var seconds = Duration.ofSeconds(step == 3 ? 0 : 300);
            receipt = queue.updateMessage(message.getMessageId(), receipt, "step " + step, seconds).getPopReceipt();
        }
        QueueMessageItem again = queue.receiveMessage();
        assertEquals("step 3, 2", again.getBody() + ", " + again.getDequeueCount());
    }

    @Test
    void receipts() {
        var sent = queue.sendMessage("x");
        QueueMessageItem first = queue.receiveMessage();
        var second = queue.updateMessage(first.getMessageId(), first.getPopReceipt(), "y", Duration.ofSeconds(100));
        for (String old : List.of(sent.getPopReceipt(), first.getPopReceipt())) {
            refused(404, "MessageNotFound", () -> queue.deleteMessage(sent.getMessageId(), old));
            refused(404, "MessageNotFound", () -> queue.updateMessage(sent.getMessageId(), old, "stale", Duration.ZERO));
        }
        refused(400, "InvalidQueryParameterValue", () -> queue.deleteMessage(sent.getMessageId(), "invalid"));
        queue.deleteMessage(sent.getMessageId(), second.getPopReceipt());
    }

    @Test
    void visibility() throws InterruptedException {
        queue.sendMessageWithResponse("later", Duration.ofMinutes(10), null, null, null);
        queue.sendMessage("now");
        assertEquals(1, take(32, 1).size());
        assertEquals(List.of(), texts(queue));
        assertEquals(2, count());
        Thread.sleep(1200);
        assertEquals(2, take(32, 30).get(0).getDequeueCount());
    }

    @Test
    void timeToLive() {
        var forever = queue.sendMessageWithResponse("x", null, Duration.ofSeconds(-1), null, null).getValue();
        assertEquals(9999, forever.getExpirationTime().getYear());
        refused(400, "InvalidQueryParameterValue",
            () -> queue.sendMessageWithResponse("x", null, Duration.ofSeconds(-2), null, null));
    }

    @Test
    void clear() {
        queue.sendMessage("x");
        QueueMessageItem message = queue.receiveMessage();
        queue.clearMessages();
        assertEquals(0, count());
        refused(404, "MessageNotFound", () -> queue.deleteMessage(message.getMessageId(), message.getPopReceipt()));
    }

    static Stream<String> samples() {
        return Stream.of("  two  ", "a\nb", "<a>&amp;</a>", "日本語 🎉 é", "aGVsbG8=", "a".repeat(65536), "é".repeat(32768));
    }

    @ParameterizedTest(name = "{index}")
    @MethodSource("samples")
    void bodies(String body) {
        queue.sendMessage(body);
        assertEquals(List.of(body), texts(queue));
        assertEquals(body, queue.receiveMessage().getBody().toString());
    }

    @Test
    void tooLarge() {
        refused(413, "RequestBodyTooLarge", () -> queue.sendMessage("a".repeat(65537)));
    }

    @Test
    void base64() {
        var encoded = builder(ENDPOINT).credential(new StorageSharedKeyCredential(ACCOUNT, KEY))
            .messageEncoding(QueueMessageEncoding.BASE64).buildClient().getQueueClient(queue.getQueueName());
        encoded.sendMessage("<hé>");
        assertEquals(List.of("PGjDqT4="), texts(queue));
        assertEquals("<hé>", encoded.receiveMessage().getBody().toString());
    }
}
