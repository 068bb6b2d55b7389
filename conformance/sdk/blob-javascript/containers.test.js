"use strict";

const assert = require("node:assert/strict");
const { after, describe, it } = require("node:test");
const { BlobServiceClient, ContainerClient, StorageSharedKeyCredential } = require("@azure/storage-blob");
const {
  ACCOUNT, CONNECTION_STRING, CREDENTIAL, ENDPOINT, OPTIONS, SECONDARY, WRONG_KEY,
  collect, names, put, refused, service, text, uniqueName, withContainer,
} = require("./support");

describe("containers", () => {
  it("are made and deleted", async () => {
    const container = service.getContainerClient(uniqueName());
    assert.equal(await container.exists(), false);
    const made = await container.create({ metadata: { team: "core" } });
    assert.equal(await container.exists(), true);
    const found = await container.getProperties();
    assert.deepEqual([found.etag, found.metadata, found.leaseState], [made.etag, { team: "core" }, "available"]);
    await refused(container.create(), 409, "ContainerAlreadyExists");
    assert.equal((await container.createIfNotExists()).succeeded, false);
    await container.delete();
    await refused(container.getProperties(), 404, "ContainerNotFound");
    assert.equal((await container.deleteIfExists()).succeeded, false);
  });

  for (const [name, code] of [["Upper", "InvalidResourceName"], ["a--b", "InvalidResourceName"], ["ab", "OutOfRangeInput"], ["x".repeat(64), "OutOfRangeInput"]]) {
    it(`are not named ${name.slice(0, 8)}`, () => refused(service.getContainerClient(name).create(), 400, code));
  }

  it("have metadata", withContainer(async (container) => {
    await container.setMetadata({ team: "core", zone: "two words" });
    assert.deepEqual((await container.getProperties()).metadata, { team: "core", zone: "two words" });
    await refused(container.setMetadata({ "1bad": "x" }), 400, "InvalidMetadata");
    await container.setMetadata();
    assert.deepEqual((await container.getProperties()).metadata ?? {}, {});
  }));

  it("are listed in pages", async () => {
    const prefix = uniqueName();
    const wanted = [0, 1, 2, 3, 4].map((number) => `${prefix}-${number}`);
    for (const name of wanted) await service.createContainer(name, { metadata: { number: name.at(-1) } });
    const found = await collect(service.listContainers({ prefix, includeMetadata: true }));
    assert.deepEqual(found.map((each) => each.name), wanted);
    assert.deepEqual(found.map((each) => each.metadata.number), ["0", "1", "2", "3", "4"]);
    const pages = await collect(service.listContainers({ prefix }).byPage({ maxPageSize: 2 }));
    assert.deepEqual(pages.map((page) => page.containerItems.map((each) => each.name)), [wanted.slice(0, 2), wanted.slice(2, 4), wanted.slice(4)]);
    for (const name of wanted) await service.deleteContainer(name);
  });

  it("have policies", withContainer(async (container) => {
    const startsOn = new Date("2026-01-01T12:10:00Z");
    const expiresOn = new Date("2036-01-01T00:00:00Z");
    await container.setAccessPolicy(undefined, [
      { id: "reader", accessPolicy: { permissions: "rl", startsOn, expiresOn } },
      { id: "writer", accessPolicy: { permissions: "w", startsOn, expiresOn } },
    ]);
    const { signedIdentifiers, blobPublicAccess } = await container.getAccessPolicy();
    assert.deepEqual(signedIdentifiers.map(({ id, accessPolicy }) => [id, accessPolicy.permissions, accessPolicy.startsOn, accessPolicy.expiresOn]),
      [["reader", "rl", startsOn, expiresOn], ["writer", "w", startsOn, expiresOn]]);
    assert.equal(blobPublicAccess, undefined);
  }));

  for (const [access, reads, lists] of [[undefined, false, false], ["blob", true, false], ["container", true, true]]) {
    it(`are open to strangers: ${access ?? "no"}`, withContainer(async (container) => {
      await put(container, "a", "for everyone");
      await container.setAccessPolicy(access);
      assert.equal((await container.getAccessPolicy()).blobPublicAccess, access);
      const stranger = new ContainerClient(container.url, undefined, OPTIONS);
      const denied = (promise) => assert.rejects(promise, (error) => [401, 403, 404].includes(error.statusCode));
      if (reads) assert.equal(await text(stranger.getBlobClient("a")), "for everyone");
      else await denied(text(stranger.getBlobClient("a")));
      if (lists) assert.deepEqual(await names(stranger), ["a"]);
      else await denied(names(stranger));
      await denied(put(stranger, "b"));
    }));
  }

  it("are leased", withContainer(async (container) => {
    const lease = container.getBlobLeaseClient();
    await lease.acquireLease(15);
    await refused(container.delete(), 412, "LeaseIdMissing");
    await refused(container.getBlobLeaseClient().acquireLease(15), 409, "LeaseAlreadyPresent");
    await lease.renewLease();
    await lease.releaseLease();
    assert.equal((await container.getProperties()).leaseState, "available");
  }));

  it("need the right key", withContainer(async (container) => {
    const stranger = new BlobServiceClient(ENDPOINT, new StorageSharedKeyCredential(ACCOUNT, WRONG_KEY), OPTIONS);
    await refused(names(stranger.getContainerClient(container.containerName)), 403, "AuthenticationFailed");
  }));

  it("are reached by a connection string", withContainer(async (container) => {
    await put(container, "dir/a", "x");
    const again = BlobServiceClient.fromConnectionString(CONNECTION_STRING, OPTIONS);
    assert.equal(await text(again.getContainerClient(container.containerName).getBlobClient("dir/a")), "x");
  }));
});

describe("the service", () => {
  const off = { enabled: false };
  const week = { enabled: true, days: 7 };
  after(() => service.setProperties({
    blobAnalyticsLogging: { version: "1.0", read: false, write: false, deleteProperty: false, retentionPolicy: off },
    hourMetrics: { version: "1.0", enabled: false, retentionPolicy: off },
    minuteMetrics: { version: "1.0", enabled: false, retentionPolicy: off },
    cors: [],
    staticWebsite: off,
  }));

  it("has properties", async () => {
    const wanted = {
      blobAnalyticsLogging: { version: "1.0", read: true, write: false, deleteProperty: true, retentionPolicy: week },
      hourMetrics: { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy: week },
      minuteMetrics: { version: "1.0", enabled: true, includeAPIs: false, retentionPolicy: off },
      cors: [{ allowedOrigins: "http://www.example.com", allowedMethods: "GET,PUT", allowedHeaders: "x-ms-*", exposedHeaders: "x-ms-*", maxAgeInSeconds: 500 }],
    };
    // The properties belong to the whole account: another run may have written between our two steps.
    for (let attempt = 1; ; attempt++) {
      try {
        await service.setProperties(wanted);
        const { blobAnalyticsLogging, hourMetrics, minuteMetrics, cors } = await service.getProperties();
        assert.deepEqual(JSON.parse(JSON.stringify({ blobAnalyticsLogging, hourMetrics, minuteMetrics, cors })), wanted);
        return;
      } catch (error) {
        if (attempt === 5) throw error;
      }
    }
  });

  it("has statistics on the secondary", async () => {
    const { _response } = await new BlobServiceClient(SECONDARY, CREDENTIAL, OPTIONS).getStatistics();
    // The client looks below a root element of its own, where the service sends StorageServiceStats.
    assert.match(_response.bodyAsText, /<Status>(live|bootstrap|unavailable)<\/Status>/);
  });

  it("says what the account is", async () => {
    const { skuName, accountKind, isHierarchicalNamespaceEnabled } = await service.getAccountInfo();
    assert.deepEqual([skuName, accountKind, isHierarchicalNamespaceEnabled], ["Standard_LRS", "StorageV2", false]);
  });
});
