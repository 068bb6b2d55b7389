import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.util.BinaryData;
import com.azure.storage.blob.models.AccessTier;
import com.azure.storage.blob.models.BlobHttpHeaders;
import com.azure.storage.blob.models.BlobItem;
import com.azure.storage.blob.models.BlobListDetails;
import com.azure.storage.blob.models.BlobRange;
import com.azure.storage.blob.models.BlobRequestConditions;
import com.azure.storage.blob.models.BlockList;
import com.azure.storage.blob.models.BlockListType;
import com.azure.storage.blob.models.CopyStatusType;
import com.azure.storage.blob.models.DeleteSnapshotsOptionType;
import com.azure.storage.blob.models.DownloadRetryOptions;
import com.azure.storage.blob.models.ListBlobsOptions;
import com.azure.storage.blob.models.PageRange;
import com.azure.storage.blob.models.ParallelTransferOptions;
import com.azure.storage.blob.models.SequenceNumberActionType;
import com.azure.storage.blob.options.BlobParallelUploadOptions;
import com.azure.storage.blob.specialized.BlobLeaseClientBuilder;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class BlobsTest extends BlobTest {
    private static final long PIECE = 256 * 1024;

    private static String id(int number) {
        return Base64.getEncoder().encodeToString(String.format("%04d", number).getBytes());
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 100_000})
    void upload(int size) throws Exception {
        byte[] data = content(size, 1);
        var blob = container.getBlobClient("dir/a ü");
        blob.uploadWithResponse(new BlobParallelUploadOptions(BinaryData.fromBytes(data))
            .setHeaders(new BlobHttpHeaders().setContentType("text/plain")).setMetadata(Map.of("a", "1")), null, null);
        assertArrayEquals(data, blob.downloadContent().toBytes());
        var found = blob.getProperties();
        assertEquals(size + " text/plain " + Map.of("a", "1"), found.getBlobSize() + " " + found.getContentType() + " " + found.getMetadata());
        assertArrayEquals(MessageDigest.getInstance("MD5").digest(data), found.getContentMd5());
    }

    @Test
    void uploadInBlocks() {
        byte[] data = content((int) (5 * PIECE + 17), 2);
        var blob = container.getBlobClient("large");
        var options = new ParallelTransferOptions().setBlockSizeLong(PIECE).setMaxSingleUploadSizeLong(PIECE).setMaxConcurrency(3);
        blob.uploadWithResponse(new BlobParallelUploadOptions(BinaryData.fromBytes(data)).setParallelTransferOptions(options), null, null);
        BlockList list = blob.getBlockBlobClient().listBlocks(BlockListType.ALL);
        assertEquals(List.of(6, 0), List.of(list.getCommittedBlocks().size(), list.getUncommittedBlocks().size()));
        assertArrayEquals(data, blob.downloadContent().toBytes());
        var range = new ByteArrayOutputStream();
        blob.downloadStreamWithResponse(range, new BlobRange(1000, 300_000L), new DownloadRetryOptions(), null, false, null, null);
        assertArrayEquals(Arrays.copyOfRange(data, 1000, 301_000), range.toByteArray());
    }

    @Test
    void streams() throws Exception {
        byte[] data = content(700_000, 3);
        var blob = container.getBlobClient("stream");
        try (var out = blob.getBlockBlobClient().getBlobOutputStream()) {
            out.write(data);
        }
        try (var in = blob.openInputStream()) {
            assertArrayEquals(data, in.readAllBytes());
        }
        put("empty", "");
        try (var in = container.getBlobClient("empty").openInputStream()) {
            assertEquals(0, in.readAllBytes().length);
        }
    }

    @Test
    void blocks() {
        var blob = container.getBlobClient("a").getBlockBlobClient();
        for (int number = 0; number < 3; number++) {
            blob.stageBlock(id(number), BinaryData.fromString("" + number));
        }
        refused(404, "BlobNotFound", blob::getProperties);
        blob.commitBlockList(List.of(id(2), id(0), id(2)));
        assertEquals("202", text(blob));
        refused(400, "InvalidBlockList", () -> blob.commitBlockList(List.of(id(9)), true));
        refused(400, "Md5Mismatch", () -> blob.stageBlockWithResponse(id(1), new ByteArrayInputStream(new byte[1]), 1, new byte[16], null, null, null));
        assertEquals("202", text(blob));
    }

    @Test
    void conditions() {
        var blob = put("a", "one");
        String old = blob.getProperties().getETag();
        refused(409, "BlobAlreadyExists", () -> blob.upload(BinaryData.fromString("x")));
        blob.upload(BinaryData.fromString("two"), true);
        var stale = new BlobRequestConditions().setIfMatch(old);
        refused(412, "ConditionNotMet", () -> blob.deleteWithResponse(null, stale, null, null));
        refused(412, "ConditionNotMet", () -> blob.setMetadataWithResponse(Map.of(), stale, null, null));
        var fresh = new BlobRequestConditions().setIfNoneMatch(blob.getProperties().getETag());
        refused(304, "ConditionNotMet", () -> blob.downloadContentWithResponse(null, fresh, null, null));
        assertEquals("two", text(blob));
    }

    @Test
    void delete() {
        var blob = put("a", "x");
        assertTrue(blob.exists());
        blob.delete();
        assertFalse(blob.exists());
        assertFalse(blob.deleteIfExists());
        refused(404, "BlobNotFound", () -> text(blob));
    }

    @Test
    void append() {
        var source = put("source", "0123456789");
        var log = container.getBlobClient("log").getAppendBlobClient();
        log.create();
        log.appendBlock(new ByteArrayInputStream("one".getBytes()), 3);
        assertEquals("3", log.appendBlock(new ByteArrayInputStream("two".getBytes()), 3).getBlobAppendOffset());
        log.appendBlockFromUrl(source(source), new BlobRange(2, 3L));
        assertEquals("onetwo234", text(log));
        log.seal();
        refused(409, "BlobIsSealed", () -> log.appendBlock(new ByteArrayInputStream(new byte[1]), 1));
    }

    @Test
    void pages() {
        var disk = container.getBlobClient("disk").getPageBlobClient();
        disk.create(4096);
        byte[] data = content(1024, 4);
        disk.uploadPages(new PageRange().setStart(512).setEnd(1535), new ByteArrayInputStream(data));
        String taken = disk.createSnapshot().getSnapshotId();
        disk.clearPages(new PageRange().setStart(512).setEnd(1023));
        List<String> ranges = new ArrayList<>();
        disk.listPageRanges(new BlobRange(0)).forEach(each -> ranges.add(each.getRange().getOffset() + "+" + each.getRange().getLength()));
        disk.listPageRangesDiff(new BlobRange(0), taken).forEach(each -> ranges.add(each.isClear() + " " + each.getRange().getOffset() + "+" + each.getRange().getLength()));
        assertEquals(List.of("1024+512", "true 512+512"), ranges);
        byte[] whole = new byte[4096];
        System.arraycopy(data, 512, whole, 1024, 512);
        assertArrayEquals(whole, disk.downloadContent().toBytes());
        disk.resize(512);
        assertArrayEquals(new byte[512], disk.downloadContent().toBytes());
        assertEquals(7, disk.updateSequenceNumber(SequenceNumberActionType.UPDATE, 7L).getBlobSequenceNumber());
        disk.deleteWithResponse(DeleteSnapshotsOptionType.INCLUDE, null, null, null);
    }

    @Test
    void snapshots() {
        var blob = put("a", "one");
        var old = blob.createSnapshot();
        blob.upload(BinaryData.fromString("two"), true);
        assertEquals("one two", text(old) + " " + text(blob));
        var details = new ListBlobsOptions().setDetails(new BlobListDetails().setRetrieveSnapshots(true));
        assertEquals(2, container.listBlobs(details, null).stream().count());
        refused(409, "SnapshotsPresent", blob::delete);
        blob.deleteWithResponse(DeleteSnapshotsOptionType.INCLUDE, null, null, null);
        assertEquals(List.of(), names());
    }

    @Test
    void lease() {
        var blob = put("a", "one");
        var lease = new BlobLeaseClientBuilder().blobClient(blob).buildClient();
        String id = lease.acquireLease(-1);
        refused(412, "LeaseIdMissing", () -> blob.upload(BinaryData.fromString("x"), true));
        blob.uploadWithResponse(new BlobParallelUploadOptions(BinaryData.fromString("two")).setRequestConditions(new BlobRequestConditions().setLeaseId(id)), null, null);
        lease.renewLease();
        assertEquals(0, lease.breakLease());
        assertEquals("two", text(blob));
    }

    @Test
    void copies() {
        byte[] data = content(500_000, 5);
        var original = put("ü %", data);
        var started = container.getBlobClient("started");
        var done = started.beginCopy(original.getBlobUrl(), Duration.ofMillis(100)).waitForCompletion(Duration.ofSeconds(20)).getValue();
        assertEquals(CopyStatusType.SUCCESS, done.getCopyStatus());
        refused(409, "NoPendingCopyOperation", () -> started.abortCopyFromUrl(done.getCopyId()));
        var atOnce = container.getBlobClient("at once");
        atOnce.copyFromUrl(source(original));
        var whole = container.getBlobClient("whole");
        whole.getBlockBlobClient().uploadFromUrl(source(original));
        var staged = container.getBlobClient("staged").getBlockBlobClient();
        staged.stageBlockFromUrl(id(0), source(original), new BlobRange(1000, 2000L));
        staged.commitBlockList(List.of(id(0)));
        for (var blob : List.of(started, atOnce, whole)) {
            assertArrayEquals(data, blob.downloadContent().toBytes());
        }
        assertArrayEquals(Arrays.copyOfRange(data, 1000, 3000), staged.downloadContent().toBytes());
        refused(404, "CannotVerifyCopySource", () -> atOnce.copyFromUrl(source(container.getBlobClient("missing"))));
    }

    @Test
    void lists() {
        List<String> tree = List.of("a", "dir-x", "dir/1", "dir/sub/2", "dir/z", "dir0", "e/f");
        tree.forEach(name -> put(name, name));
        for (int size : new int[] {1, 3, 100}) {
            var options = new ListBlobsOptions().setMaxResultsPerPage(size);
            assertEquals(tree, container.listBlobs(options, null).stream().map(BlobItem::getName).toList());
            assertEquals(List.of("a", "dir-x", "dir/", "dir0", "e/"),
                container.listBlobsByHierarchy("/", options, null).stream().map(BlobItem::getName).sorted().toList());
        }
        assertEquals(List.of("dir/sub/"), container.listBlobsByHierarchy("dir/").stream().filter(item -> Boolean.TRUE.equals(item.isPrefix())).map(BlobItem::getName).toList());
    }

    @ParameterizedTest
    @ValueSource(strings = {"with space", "ünï/文件.txt", "100%", "a%20b", "a+b&c=d", "q?x#y", "it's \"quoted\"", "folder/", "😀", "<tag>&amp;", "~!$()*,:@[]"})
    void nameOfBlob(String name) {
        var blob = put(name, name);
        assertEquals(name, text(blob));
        assertEquals(List.of(name), names());
        blob.delete();
        assertEquals(List.of(), names());
    }

    @Test
    void tagsAndTiers() {
        String mark = uniqueName();
        var blob = put("a", "x");
        blob.setTags(Map.of("mark", mark, "env", "prod"));
        assertEquals(Map.of("mark", mark, "env", "prod"), blob.getTags());
        assertEquals(List.of("a"), service.findBlobsByTags("mark='" + mark + "' AND env='prod'").stream().map(item -> item.getName()).toList());
        blob.setAccessTier(AccessTier.COOL);
        assertEquals(AccessTier.COOL, blob.getProperties().getAccessTier());
        blob.setAccessTier(AccessTier.ARCHIVE);
        refused(409, "BlobArchived", () -> text(blob));
    }

    @Test
    void tokens() {
        var blob = put("dir/ü", "x");
        var reader = new com.azure.storage.blob.BlobClientBuilder().endpoint(source(blob)).buildClient();
        assertEquals("x", text(reader));
        refused(403, "AuthorizationPermissionMismatch", reader::delete);
        refused(403, "AuthorizationPermissionMismatch", () -> reader.setMetadata(Map.of()));
        assertEquals("x", text(blob));
    }
}
