"use strict";

const assert = require("node:assert/strict");
const { createHash, randomUUID } = require("node:crypto");
const { Readable } = require("node:stream");
const { describe, it } = require("node:test");
const {
  KIB, collect, content, md5, names, put, read, refused, service, source, text, uniqueName, withContainer,
} = require("./support");

const id = (number) => Buffer.from(String(number).padStart(4, "0")).toString("base64");
const sha256 = (data) => createHash("sha256").update(data).digest("hex");

describe("block blobs", () => {
  for (const size of [0, 1, 100_000]) {
    it(`are written whole: ${size}`, withContainer(async (container) => {
      const data = content(size);
      const blob = container.getBlockBlobClient("a");
      const made = await blob.upload(data, size, { blobHTTPHeaders: { blobContentType: "text/plain", blobCacheControl: "no-cache" }, metadata: { a: "1" } });
      assert.equal(sha256(await read(blob)), sha256(data));
      const found = await blob.getProperties();
      assert.deepEqual([found.contentLength, found.etag, found.contentType, found.cacheControl, found.metadata], [size, made.etag, "text/plain", "no-cache", { a: "1" }]);
      assert.equal(Buffer.from(found.contentMD5).toString("base64"), md5(data));
    }));
  }

  it("are written in parallel blocks", withContainer(async (container) => {
    const data = content(5 * 256 * KIB + 17);
    const blob = container.getBlockBlobClient("large");
    await blob.uploadData(data, { blockSize: 256 * KIB, maxSingleShotSize: 256 * KIB, concurrency: 4 });
    assert.deepEqual((await blob.getBlockList("committed")).committedBlocks.map(({ size }) => size), [...Array(5).fill(256 * KIB), 17]);
    const back = Buffer.alloc(data.length);
    await blob.downloadToBuffer(back, 0, undefined, { blockSize: 300 * KIB, concurrency: 4 });
    assert.equal(sha256(back), sha256(data));
    const part = await blob.downloadToBuffer(1000, 400 * KIB, { blockSize: 100 * KIB, concurrency: 2 });
    assert.equal(sha256(part), sha256(data.subarray(1000, 1000 + 400 * KIB)));
  }));

  it("are written from a stream", withContainer(async (container) => {
    const data = content(900 * KIB);
    const blob = container.getBlockBlobClient("stream");
    await blob.uploadStream(Readable.from([data.subarray(0, 10), data.subarray(10, 500_000), data.subarray(500_000)]), 256 * KIB, 3);
    assert.equal(sha256(await read(blob)), sha256(data));
  }));

  it("are staged and committed", withContainer(async (container) => {
    const blob = container.getBlockBlobClient("a");
    for (const number of [0, 1, 2]) await blob.stageBlock(id(number), `${number}`, 1);
    await refused(blob.getProperties(), 404, "BlobNotFound");
    assert.deepEqual((await blob.getBlockList("all")).uncommittedBlocks.map(({ name }) => name), [id(0), id(1), id(2)]);
    await blob.commitBlockList([id(2), id(0), id(2)]);
    assert.equal(await text(blob), "202");
    await refused(blob.commitBlockList([id(9)]), 400, "InvalidBlockList");
    await blob.stageBlock(id(5), "5", 1);
    await blob.commitBlockList([id(5), id(0)]);
    assert.equal(await text(blob), "50");
  }));

  it("are overwritten on conditions", withContainer(async (container) => {
    const blob = await put(container, "a", "one");
    const old = (await blob.getProperties()).etag;
    await refused(blob.upload("two", 3, { conditions: { ifNoneMatch: "*" } }), 409, "BlobAlreadyExists");
    const { etag } = await blob.upload("two", 3, { conditions: { ifMatch: old } });
    await refused(blob.upload("xxx", 3, { conditions: { ifMatch: old } }), 412, "ConditionNotMet");
    assert.equal(await text(blob), "two");
    await refused(blob.download(0, undefined, { conditions: { ifNoneMatch: etag } }), 304, "ConditionNotMet");
    await refused(blob.download(0, undefined, { conditions: { ifMatch: old } }), 412, "ConditionNotMet");
    await refused(blob.delete({ conditions: { ifMatch: old } }), 412, "ConditionNotMet");
  }));

  it("are checked", withContainer(async (container) => {
    const blob = container.getBlockBlobClient("a");
    const wrong = new Uint8Array(16);
    await refused(blob.upload("x", 1, { blobHTTPHeaders: { blobContentMD5: wrong } }), 400, "Md5Mismatch");
    await refused(blob.stageBlock(id(1), "x", 1, { transactionalContentMD5: wrong }), 400, "Md5Mismatch");
    await refused(blob.stageBlock(id(1), "x", 1, { transactionalContentCrc64: new Uint8Array(8) }), 400, "Crc64Mismatch");
    await blob.upload("Hello World", 11);
    const part = await blob.download(0, 5, { rangeGetContentMD5: true });
    assert.equal(Buffer.from(part.contentMD5).toString("base64"), md5("Hello"));
    const checked = await blob.download(0, 5, { rangeGetContentCrc64: true });
    assert.equal(Buffer.from(checked.contentCrc64).toString("base64"), "7YooR2vuA24=");
  }));

  for (const [offset, count, wanted] of [[0, 3, "012"], [7, undefined, "789"], [8, 100, "89"], [9, 1, "9"]]) {
    it(`are read in part: ${offset}, ${count}`, withContainer(async (container) => {
      const blob = await put(container, "a", "0123456789");
      assert.equal(await text(blob, offset, count), wanted);
    }));
  }

  it("end", withContainer(async (container) => {
    const blob = await put(container, "a", "0123456789");
    await refused(blob.download(10, 1), 416, "InvalidRange");
  }));

  it("have properties that are set together", withContainer(async (container) => {
    const blob = await put(container, "a", "x", { blobHTTPHeaders: { blobContentLanguage: "de" } });
    await blob.setHTTPHeaders({ blobContentType: "image/png" });
    const found = await blob.getProperties();
    assert.deepEqual([found.contentType, found.contentLanguage], ["image/png", undefined]);
    await blob.setMetadata({ under_score: "1" });
    assert.deepEqual((await collect(container.listBlobsFlat({ includeMetadata: true })))[0].metadata, { under_score: "1" });
  }));
});

describe("append blobs", () => {
  it("grow", withContainer(async (container) => {
    const blob = container.getAppendBlobClient("log");
    await blob.create();
    assert.deepEqual((await blob.createIfNotExists()).succeeded, false);
    const first = await blob.appendBlock("one", 3);
    const second = await blob.appendBlock("two", 3, { conditions: { appendPosition: 3, maxSize: 6 } });
    assert.deepEqual([first.blobAppendOffset, second.blobAppendOffset, second.blobCommittedBlockCount], ["0", "3", 2]);
    await refused(blob.appendBlock("x", 1, { conditions: { appendPosition: 3 } }), 412, "AppendPositionConditionNotMet");
    await refused(blob.appendBlock("x", 1, { conditions: { maxSize: 6 } }), 412, "MaxBlobSizeConditionNotMet");
    await blob.appendBlockFromURL(source(await put(container, "source", "0123456789")), 2, 3);
    assert.equal(await text(blob), "onetwo234");
    await blob.seal();
    await refused(blob.appendBlock("x", 1), 409, "BlobIsSealed");
    assert.equal((await blob.getProperties()).isSealed, true);
  }));
});

describe("page blobs", () => {
  it("have pages", withContainer(async (container) => {
    const blob = container.getPageBlobClient("disk");
    const page = content(512);
    await blob.create(4096);
    await blob.uploadPages(page, 512, 512);
    await blob.uploadPages(content(1024, 2), 2048, 1024);
    const { snapshot } = await blob.createSnapshot();
    await blob.clearPages(2048, 512);
    // The client counts one byte less than there is in a range.
    const ranges = (await blob.getPageRanges(0, 4096)).pageRange;
    assert.deepEqual(ranges, [{ offset: 512, count: 511 }, { offset: 2560, count: 511 }]);
    const difference = await blob.getPageRangesDiff(0, 4096, snapshot);
    assert.deepEqual([difference.pageRange, difference.clearRange], [[], [{ offset: 2048, count: 511 }]]);
    const whole = Buffer.alloc(4096);
    page.copy(whole, 512);
    content(1024, 2).copy(whole, 2560, 512);
    assert.equal(sha256(await read(blob)), sha256(whole));
    await blob.resize(1024);
    assert.equal(sha256(await read(blob)), sha256(whole.subarray(0, 1024)));
    assert.equal((await blob.updateSequenceNumber("update", 7)).blobSequenceNumber, 7);
    await refused(blob.uploadPages(page, 0, 512, { conditions: { ifSequenceNumberLessThan: 7 } }), 412, "SequenceNumberConditionNotMet");
    await blob.delete({ deleteSnapshots: "include" });
  }));

  it("take pages from an address", withContainer(async (container) => {
    const blob = container.getPageBlobClient("disk");
    await blob.create(2048);
    const data = content(2048);
    await blob.uploadPagesFromURL(source(await put(container, "source", data)), 512, 1024, 512);
    assert.equal(sha256(await read(blob, 1024, 512)), sha256(data.subarray(512, 1024)));
  }));
});

describe("snapshots", () => {
  it("keep what was", withContainer(async (container) => {
    const blob = await put(container, "a", "one");
    const { snapshot } = await blob.createSnapshot();
    await blob.upload("two", 3);
    assert.equal(await text(blob.withSnapshot(snapshot)), "one");
    const found = await collect(container.listBlobsFlat({ includeSnapshots: true }));
    assert.deepEqual(found.map((each) => each.snapshot), [snapshot, undefined]);
    await refused(blob.delete(), 409, "SnapshotsPresent");
    await blob.delete({ deleteSnapshots: "only" });
    assert.equal(await text(blob), "two");
  }));
});

describe("leases", () => {
  it("guard a blob", withContainer(async (container) => {
    const blob = await put(container, "a", "one");
    const lease = blob.getBlobLeaseClient(randomUUID());
    await lease.acquireLease(-1);
    await refused(blob.upload("x", 1), 412, "LeaseIdMissing");
    await refused(blob.upload("x", 1, { conditions: { leaseId: randomUUID() } }), 412, "LeaseIdMismatchWithBlobOperation");
    await blob.upload("two", 3, { conditions: { leaseId: lease.leaseId } });
    await lease.changeLease(randomUUID());
    await lease.renewLease();
    assert.equal((await lease.breakLease(0)).leaseTime, 0);
    await blob.delete();
  }));
});

describe("copies", () => {
  it("are made by the service", withContainer(async (container, other) => {
    const data = content(500_000);
    const blob = await put(container, "dir/ü %", data, { metadata: { a: "1" } });
    const copy = other.getBlobClient("copy");
    const poller = await copy.beginCopyFromURL(blob.url, { intervalInMs: 50 });
    const done = await poller.pollUntilDone();
    assert.equal(done.copyStatus, "success");
    assert.equal(sha256(await read(copy)), sha256(data));
    const found = await copy.getProperties();
    assert.deepEqual([found.copyId, found.copyProgress, found.metadata], [done.copyId, "500000/500000", { a: "1" }]);
    await refused(copy.abortCopyFromURL(done.copyId), 409, "NoPendingCopyOperation");
    await refused(copy.beginCopyFromURL(container.getBlobClient("missing").url), 404, "BlobNotFound");
  }));

  it("are made at once", withContainer(async (container, other) => {
    const data = content(500_000);
    const blob = await put(container, "a", data);
    assert.equal((await other.getBlobClient("sync").syncCopyFromURL(source(blob))).copyStatus, "success");
    await other.getBlockBlobClient("put").syncUploadFromURL(source(blob));
    const staged = other.getBlockBlobClient("staged");
    await staged.stageBlockFromURL(id(0), source(blob), 1000, 2000);
    await staged.commitBlockList([id(0)]);
    assert.equal(sha256(await read(other.getBlobClient("sync"))), sha256(data));
    assert.equal(sha256(await read(other.getBlobClient("put"))), sha256(data));
    assert.equal(sha256(await read(staged)), sha256(data.subarray(1000, 3000)));
    await refused(other.getBlobClient("x").syncCopyFromURL(source(container.getBlobClient("missing"))), 404, "CannotVerifyCopySource");
  }));
});

describe("lists", () => {
  const TREE = ["a", "dir-x", "dir/1", "dir/sub/2", "dir/z", "dir0", "e/f"];

  it("are flat", withContainer(async (container) => {
    for (const name of TREE) await put(container, name);
    assert.deepEqual(await names(container), TREE);
    assert.deepEqual(await names(container, { prefix: "dir/" }), ["dir/1", "dir/sub/2", "dir/z"]);
    const pages = await collect(container.listBlobsFlat().byPage({ maxPageSize: 3 }));
    assert.deepEqual(pages.map((page) => page.segment.blobItems.map(({ name }) => name)), [TREE.slice(0, 3), TREE.slice(3, 6), TREE.slice(6)]);
    const rest = await collect(container.listBlobsFlat().byPage({ continuationToken: pages[0].continuationToken }));
    assert.deepEqual(rest.flatMap((page) => page.segment.blobItems.map(({ name }) => name)), TREE.slice(3));
  }));

  it("are by folder", withContainer(async (container) => {
    for (const name of TREE) await put(container, name);
    for (const maxPageSize of [1, 2, 100]) {
      const pages = await collect(container.listBlobsByHierarchy("/").byPage({ maxPageSize }));
      const found = pages.flatMap(({ segment }) => [...segment.blobPrefixes ?? [], ...segment.blobItems].map(({ name }) => name));
      assert.deepEqual(found.sort(), ["a", "dir-x", "dir/", "dir0", "e/"]);
    }
    const found = await collect(container.listBlobsByHierarchy("/", { prefix: "dir/" }));
    assert.deepEqual(found.map(({ kind, name }) => [kind, name]).sort(), [["blob", "dir/1"], ["blob", "dir/z"], ["prefix", "dir/sub/"]]);
  }));

  for (const name of ["with space", "ünï/文件.txt", "100%", "a%20b", "a+b&c=d", "q?x#y", "it's \"quoted\"", "folder/", "a//b", "😀", "<tag>&amp;", "~!$()*,:@[]"]) {
    it(`have the name ${name}`, withContainer(async (container) => {
      const blob = await put(container, name, name);
      assert.equal(await text(blob), name);
      assert.deepEqual(await names(container), [name]);
      await blob.delete();
      assert.deepEqual(await names(container), []);
    }));
  }
});

describe("tags and tiers", () => {
  it("are set and found", withContainer(async (container) => {
    const mark = uniqueName();
    const blob = await put(container, "a", "x", { tags: { mark, env: "prod" }, tier: "Cool" });
    await put(container, "b", "x", { tags: { mark, env: "test" } });
    assert.deepEqual((await blob.getTags()).tags, { mark, env: "prod" });
    const found = await collect(service.findBlobsByTags(`mark='${mark}' AND env='prod'`));
    assert.deepEqual(found.map(({ name, containerName, tags }) => [name, containerName, tags]), [["a", container.containerName, { mark, env: "prod" }]]);
    assert.deepEqual((await collect(container.findBlobsByTags(`mark='${mark}'`))).map(({ name }) => name), ["a", "b"]);
    await refused(blob.download(0, undefined, { conditions: { tagConditions: "env='test'" } }), 412, "ConditionNotMet");
    assert.equal((await blob.getProperties()).accessTier, "Cool");
    await blob.setAccessTier("Archive");
    await refused(blob.download(), 409, "BlobArchived");
    await blob.setTags({});
    assert.deepEqual((await blob.getTags()).tags, {});
  }));
});

describe("batches", () => {
  it("delete and set tiers", withContainer(async (container) => {
    const blobs = [];
    for (let number = 0; number < 10; number++) blobs.push(await put(container, `dir/blob ${number}`));
    for (const batch of [service.getBlobBatchClient(), container.getBlobBatchClient()]) {
      const part = blobs.splice(0, 5);
      const tiers = await batch.setBlobsAccessTier(part, "Cool");
      assert.deepEqual([tiers.subResponsesSucceededCount, tiers.subResponsesFailedCount], [5, 0]);
      assert.equal((await part[4].getProperties()).accessTier, "Cool");
      const done = await batch.deleteBlobs([part[0], container.getBlobClient("missing"), ...part.slice(1)]);
      assert.deepEqual(done.subResponses.map(({ status }) => status), [202, 404, 202, 202, 202, 202]);
      assert.equal(done.subResponses[1].errorCode, "BlobNotFound");
    }
    assert.deepEqual(await names(container), []);
  }));
});
