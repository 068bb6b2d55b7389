import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.azure.storage.common.sas.AccountSasPermission;
import com.azure.storage.common.sas.AccountSasResourceType;
import com.azure.storage.common.sas.AccountSasService;
import com.azure.storage.common.sas.AccountSasSignatureValues;
import com.azure.storage.common.sas.SasProtocol;
import com.azure.storage.queue.QueueClient;
import com.azure.storage.queue.models.QueueAccessPolicy;
import com.azure.storage.queue.models.QueueSignedIdentifier;
import com.azure.storage.queue.models.SendMessageResult;
import com.azure.storage.queue.sas.QueueSasPermission;
import com.azure.storage.queue.sas.QueueServiceSasSignatureValues;
import java.time.Duration;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class SasTest extends QueueTest {
    private static QueueServiceSasSignatureValues values(String permissions) {
        return new QueueServiceSasSignatureValues(inMinutes(10), QueueSasPermission.parse(permissions));
    }

    private QueueClient withRights(String permissions) {
        return queueWithSas(queue.generateSas(values(permissions)));
    }

    private QueueClient withAccountRights(String permissions, String resources) {
        return queueWithSas(service.generateAccountSas(new AccountSasSignatureValues(
            inMinutes(10), AccountSasPermission.parse(permissions),
            AccountSasService.parse("q"), AccountSasResourceType.parse(resources))));
    }

    static Stream<Arguments> operations() {
        return Stream.of(
            operation("peek", "r", (client, sent) -> client.peekMessage()),
            operation("put", "a", (client, sent) -> client.sendMessage("new")),
            operation("get", "p", (client, sent) -> client.receiveMessage()),
            operation("update", "u", (client, sent) ->
                client.updateMessage(sent.getMessageId(), sent.getPopReceipt(), "y", Duration.ZERO)),
            operation("delete", "p", (client, sent) -> client.deleteMessage(sent.getMessageId(), sent.getPopReceipt())));
    }

    private static Arguments operation(String name, String letter, BiConsumer<QueueClient, SendMessageResult> call) {
        return arguments(name, letter, call);
    }

    @ParameterizedTest(name = "{0} needs {1}")
    @MethodSource("operations")
    void rights(String name, String letter, BiConsumer<QueueClient, SendMessageResult> call) {
        SendMessageResult sent = queue.sendMessage("old");
        refused(403, "AuthorizationPermissionMismatch", () -> call.accept(withRights("raup".replace(letter, "")), sent));
        refused(403, "AuthorizationPermissionMismatch",
            () -> call.accept(withAccountRights("rwdlacup".replace(letter, ""), "o"), sent));
        refused(403, "AuthorizationResourceTypeMismatch", () -> call.accept(withAccountRights("rwdlacup", "sc"), sent));
        call.accept(withRights(letter), sent);
    }

    @Test
    void refusedTokens() {
        refused(403, "AuthenticationFailed",
            () -> queueWithSas(queue.generateSas(values("p").setExpiryTime(inMinutes(-1)))).receiveMessage());
        refused(403, "AuthenticationFailed",
            () -> queueWithSas(queue.generateSas(new QueueServiceSasSignatureValues("nobody"))).receiveMessage());
        refused(403, "AuthorizationProtocolMismatch",
            () -> queueWithSas(queue.generateSas(values("p").setProtocol(SasProtocol.HTTPS_ONLY))).receiveMessage());
    }

    @Test
    void accessPolicies() {
        queue.sendMessage("x");
        queue.setAccessPolicy(List.of(new QueueSignedIdentifier().setId("reader")
            .setAccessPolicy(new QueueAccessPolicy().setExpiresOn(inMinutes(10)).setPermissions("r"))));
        assertEquals(List.of("reader"), queue.getAccessPolicy().stream().map(QueueSignedIdentifier::getId).toList());
        QueueClient reader = queueWithSas(queue.generateSas(new QueueServiceSasSignatureValues("reader")));
        assertEquals(List.of("x"), texts(reader));
        refused(403, "AuthorizationPermissionMismatch", reader::receiveMessage);
        queue.setAccessPolicy(List.of());
        refused(403, "AuthenticationFailed", () -> texts(reader));
    }
}
