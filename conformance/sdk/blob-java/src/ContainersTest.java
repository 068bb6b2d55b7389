import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.storage.blob.BlobContainerClient;
import com.azure.storage.blob.models.BlobAccessPolicy;
import com.azure.storage.blob.models.BlobContainerItem;
import com.azure.storage.blob.models.BlobSignedIdentifier;
import com.azure.storage.blob.models.BlobStorageException;
import com.azure.storage.blob.models.ListBlobContainersOptions;
import com.azure.storage.blob.models.PublicAccessType;
import com.azure.storage.blob.specialized.BlobLeaseClientBuilder;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ContainersTest extends BlobTest {
    @Test
    void createAndDelete() {
        BlobContainerClient other = service.getBlobContainerClient(uniqueName());
        assertFalse(other.exists());
        other.createWithResponse(Map.of("team", "core"), null, null, null);
        assertTrue(other.exists());
        assertEquals(Map.of("team", "core"), other.getProperties().getMetadata());
        refused(409, "ContainerAlreadyExists", other::create);
        assertFalse(other.createIfNotExists());
        other.delete();
        refused(404, "ContainerNotFound", other::getProperties);
        assertFalse(other.deleteIfExists());
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource({"Upper, InvalidResourceName", "a--b, InvalidResourceName", "ab, OutOfRangeInput"})
    void badNames(String name, String code) {
        refused(400, code, () -> service.createBlobContainer(name));
    }

    @Test
    void listInPages() {
        String prefix = uniqueName();
        List<String> names = List.of(prefix + "-0", prefix + "-1", prefix + "-2");
        names.forEach(service::createBlobContainer);
        var options = new ListBlobContainersOptions().setPrefix(prefix).setMaxResultsPerPage(2);
        assertEquals(names, service.listBlobContainers(options, null).stream().map(BlobContainerItem::getName).toList());
        List<Integer> sizes = new ArrayList<>();
        service.listBlobContainers(options, null).iterableByPage().forEach(page -> sizes.add(page.getValue().size()));
        assertEquals(List.of(2, 1), sizes);
        names.forEach(service::deleteBlobContainer);
    }

    @Test
    void policiesAndPublicAccess() {
        put("a", "for everyone");
        var policy = new BlobAccessPolicy().setPermissions("rl").setStartsOn(inMinutes(-10)).setExpiresOn(inMinutes(10));
        container.setAccessPolicy(PublicAccessType.BLOB, List.of(new BlobSignedIdentifier().setId("reader").setAccessPolicy(policy)));
        var found = container.getAccessPolicy();
        assertEquals(PublicAccessType.BLOB, found.getBlobAccessType());
        assertEquals("rl", found.getIdentifiers().get(0).getAccessPolicy().getPermissions());
        var stranger = builder().buildClient().getBlobContainerClient(container.getBlobContainerName());
        assertEquals("for everyone", text(stranger.getBlobClient("a")));
        assertThrows(BlobStorageException.class, () -> stranger.listBlobs().stream().count());
        container.setAccessPolicy(null, null);
        assertThrows(BlobStorageException.class, () -> text(stranger.getBlobClient("a")));
    }

    @Test
    void lease() {
        var lease = new BlobLeaseClientBuilder().containerClient(container).buildClient();
        lease.acquireLease(15);
        refused(412, "LeaseIdMissing", container::delete);
        lease.renewLease();
        lease.releaseLease();
        assertEquals("available", container.getProperties().getLeaseState().toString());
    }

    @Test
    void wrongKey() {
        refused(403, "AuthenticationFailed",
            () -> serviceBy(WRONG_KEY).getBlobContainerClient(container.getBlobContainerName()).getProperties());
    }

    @Test
    void accountInformation() {
        assertEquals("Standard_LRS StorageV2", service.getAccountInfo().getSkuName() + " " + service.getAccountInfo().getAccountKind());
    }
}
