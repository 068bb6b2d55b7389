import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.credential.AccessToken;
import com.azure.core.credential.TokenCredential;
import com.azure.core.exception.HttpResponseException;
import com.azure.core.http.HttpHeaderName;
import com.azure.core.http.policy.FixedDelayOptions;
import com.azure.core.http.policy.RetryOptions;
import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.TableServiceClientBuilder;
import com.azure.storage.blob.BlobServiceClient;
import com.azure.storage.blob.BlobServiceClientBuilder;
import com.azure.storage.common.policy.RequestRetryOptions;
import com.azure.storage.common.policy.RetryPolicyType;
import com.azure.storage.queue.QueueServiceClient;
import com.azure.storage.queue.QueueServiceClientBuilder;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.UUID;
import org.junit.jupiter.api.function.Executable;
import reactor.core.publisher.Mono;

/** The clients of all services with a token, and refusals. */
abstract class IdentityTest {
    /** What conformance/identity/run has started. */
    static final JsonNode SERVER = read();
    static final String DENIED = "AuthorizationPermissionMismatch";

    private static JsonNode read() {
        try {
            return new ObjectMapper().readTree(new File(System.getenv("TEPUI_ENDPOINT")));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** A credential that has one token, whoever asks for what. */
    static TokenCredential fixed(String token) {
        return request -> Mono.just(new AccessToken(token, OffsetDateTime.now().plusHours(1)));
    }

    static TokenCredential named(String name) {
        return fixed(SERVER.at("/tokens/" + name).asText());
    }

    private static String endpoint(String service) {
        return SERVER.at("/endpoints/" + service).asText();
    }

    private static RequestRetryOptions once() {
        return new RequestRetryOptions(RetryPolicyType.FIXED, 1, (Integer) null, null, null, null);
    }

    static TableServiceClient tables(TokenCredential credential) {
        return new TableServiceClientBuilder().endpoint(endpoint("table")).credential(credential)
            .retryOptions(new RetryOptions(new FixedDelayOptions(0, Duration.ofMillis(1)))).buildClient();
    }

    static QueueServiceClient queues(TokenCredential credential) {
        return new QueueServiceClientBuilder().endpoint(endpoint("queue")).credential(credential).retryOptions(once()).buildClient();
    }

    static BlobServiceClient blobs(TokenCredential credential) {
        return new BlobServiceClientBuilder().endpoint(endpoint("blob")).credential(credential).retryOptions(once()).buildClient();
    }

    /** A read of a service. */
    static Executable read(String service, TokenCredential credential) {
        return switch (service) {
            case "table" -> () -> tables(credential).listTables().forEach(table -> { });
            case "queue" -> () -> queues(credential).listQueues().forEach(queue -> { });
            default -> () -> blobs(credential).listBlobContainers().forEach(container -> { });
        };
    }

    /** A write of a service. */
    static Executable write(String service, TokenCredential credential) {
        return switch (service) {
            case "table" -> () -> tables(credential).createTable(uniqueName());
            case "queue" -> () -> queues(credential).createQueue(uniqueName());
            default -> () -> blobs(credential).createBlobContainer(uniqueName());
        };
    }

    static String uniqueName() {
        return "sdk" + UUID.randomUUID().toString().replace("-", "").substring(0, 20);
    }

    static HttpResponseException refused(int status, String code, Executable request) {
        Throwable thrown = assertThrows(Throwable.class, request);
        while (thrown != null && !(thrown instanceof HttpResponseException)) thrown = thrown.getCause();
        HttpResponseException refusal = (HttpResponseException) thrown;
        assertEquals(status, refusal.getResponse().getStatusCode());
        String header = refusal.getResponse().getHeaderValue(HttpHeaderName.fromString("x-ms-error-code"));
        // The Table service says it in the body.
        String body = header != null ? header : refusal.getResponse().getBodyAsString().block();
        assertTrue(body.contains(code), body);
        return refusal;
    }
}
