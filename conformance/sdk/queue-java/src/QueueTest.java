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
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.function.Executable;

/** What the tests share: how to reach the server, a new queue for every test, and refusals. */
abstract class QueueTest {
    static final String ENDPOINT = System.getenv("TEPUI_ENDPOINT");
    static final String SECONDARY = ENDPOINT + "-secondary";
    static final String ACCOUNT = "devstoreaccount1";
    static final String KEY =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    static final String WRONG_KEY =
        "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmc=";

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

    static String uniqueName() {
        return "sdk" + UUID.randomUUID().toString().replace("-", "").substring(0, 20);
    }

    static OffsetDateTime inMinutes(int minutes) {
        return OffsetDateTime.now(ZoneOffset.UTC).plusMinutes(minutes);
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
