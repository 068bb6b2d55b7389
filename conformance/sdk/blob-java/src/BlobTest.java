import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.azure.core.util.BinaryData;
import com.azure.storage.blob.BlobClient;
import com.azure.storage.blob.BlobContainerClient;
import com.azure.storage.blob.BlobServiceClient;
import com.azure.storage.blob.BlobServiceClientBuilder;
import com.azure.storage.blob.models.BlobItem;
import com.azure.storage.blob.models.BlobStorageException;
import com.azure.storage.blob.sas.BlobSasPermission;
import com.azure.storage.blob.sas.BlobServiceSasSignatureValues;
import com.azure.storage.blob.specialized.BlobClientBase;
import com.azure.storage.common.StorageSharedKeyCredential;
import com.azure.storage.common.policy.RequestRetryOptions;
import com.azure.storage.common.policy.RetryPolicyType;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.function.Executable;

/** A container for each test, and refusals. */
abstract class BlobTest extends ServerTest {
    final BlobServiceClient service = serviceBy(KEY);
    BlobContainerClient container;

    @BeforeEach
    void makeContainer() {
        container = service.createBlobContainer(uniqueName());
    }

    @AfterEach
    void deleteContainer() {
        container.delete();
    }

    static BlobServiceClientBuilder builder() {
        return new BlobServiceClientBuilder().endpoint(ENDPOINT)
            .retryOptions(new RequestRetryOptions(RetryPolicyType.FIXED, 1, (Integer) null, null, null, null));
    }

    static BlobServiceClient serviceBy(String key) {
        return builder().credential(new StorageSharedKeyCredential(ACCOUNT, key)).buildClient();
    }

    BlobClient put(String name, String text) {
        return put(name, text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
    }

    BlobClient put(String name, byte[] data) {
        BlobClient blob = container.getBlobClient(name);
        blob.upload(BinaryData.fromBytes(data), true);
        return blob;
    }

    static String text(BlobClientBase blob) {
        return blob.downloadContent().toString();
    }

    static byte[] content(int size, long seed) {
        byte[] data = new byte[size];
        new Random(seed).nextBytes(data);
        return data;
    }

    List<String> names() {
        return container.listBlobs().stream().map(BlobItem::getName).toList();
    }

    /** The address of a blob for a copy that reads it with a token. */
    static String source(BlobClientBase blob) {
        return blob.getBlobUrl() + "?" + token(blob, "r");
    }

    static String token(BlobClientBase blob, String permissions) {
        return blob.generateSas(new BlobServiceSasSignatureValues(inMinutes(10), BlobSasPermission.parse(permissions)));
    }

    static BlobStorageException refused(int status, String code, Executable call) {
        BlobStorageException error = assertThrows(BlobStorageException.class, call);
        assertEquals(status + " " + code, error.getStatusCode() + " " + error.getErrorCode());
        return error;
    }
}
