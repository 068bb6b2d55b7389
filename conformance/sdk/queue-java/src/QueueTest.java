import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.azure.storage.common.StorageSharedKeyCredential;
import com.azure.storage.common.policy.RequestRetryOptions;
import com.azure.storage.common.policy.RetryPolicyType;
import com.azure.storage.queue.QueueClient;
import com.azure.storage.queue.QueueServiceClient;
import com.azure.storage.queue.QueueServiceClientBuilder;
import com.azure.storage.queue.models.PeekedMessageItem;
import com.azure.storage.queue.models.QueueStorageException;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.function.Executable;

/** What the tests share: clients, a new queue for every test, and refusals. */
abstract class QueueTest extends ServerTest {
    final QueueServiceClient service = serviceAt(ENDPOINT, KEY);
    QueueClient queue;

    @BeforeEach
    void createQueue() {
        queue = service.createQueue(uniqueName());
    }

    @AfterEach
    void deleteQueue() {
        queue.delete();
    }

    static QueueServiceClientBuilder builder(String endpoint) {
        return new QueueServiceClientBuilder().endpoint(endpoint)
            .retryOptions(new RequestRetryOptions(RetryPolicyType.FIXED, 1, (Integer) null, null, null, null));
    }

    static QueueServiceClient serviceAt(String endpoint, String key) {
        return builder(endpoint).credential(new StorageSharedKeyCredential(ACCOUNT, key)).buildClient();
    }

    static QueueServiceClient serviceWithSas(String token) {
        return builder(ENDPOINT).sasToken(token).buildClient();
    }

    QueueClient queueWithSas(String token) {
        return serviceWithSas(token).getQueueClient(queue.getQueueName());
    }

    /** What is visible, without taking it. */
    static List<String> texts(QueueClient queue) {
        return queue.peekMessages(32, null, null).stream().map(PeekedMessageItem::getBody).map(Object::toString).toList();
    }

    int count() {
        return queue.getProperties().getApproximateMessagesCount();
    }

    /** The call is refused with this status and code. */
    static void refused(int status, String code, Executable call) {
        QueueStorageException error = assertThrows(QueueStorageException.class, call);
        assertEquals(status + " " + code, error.getStatusCode() + " " + error.getErrorCode());
    }
}
