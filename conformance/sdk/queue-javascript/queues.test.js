"use strict";

const assert = require("node:assert/strict");
const { after, describe, it } = require("node:test");
const { QueueServiceClient, StorageSharedKeyCredential } = require("@azure/storage-queue");
const {
  ACCOUNT, CONNECTION_STRING, CREDENTIAL, ENDPOINT, OPTIONS, SECONDARY, WRONG_KEY,
  collect, count, refused, service, texts, uniqueName, withQueue,
} = require("./support");

describe("queues", () => {
  it("are made and deleted", async () => {
    const queue = service.getQueueClient(uniqueName());
    await queue.create();
    assert.equal(await queue.exists(), true);
    assert.equal(await count(queue), 0);
    await queue.delete();
    assert.equal(await queue.exists(), false);
    await refused(queue.delete(), 404, "QueueNotFound");
    assert.equal((await queue.deleteIfExists()).succeeded, false);
  });

  it("are made once", async () => {
    const queue = service.getQueueClient(uniqueName());
    assert.equal((await queue.createIfNotExists({ metadata: { team: "core" } })).succeeded, true);
    assert.equal((await queue.create({ metadata: { team: "core" } }))._response.status, 204);
    await refused(queue.create(), 409, "QueueAlreadyExists");
    assert.equal((await queue.createIfNotExists()).succeeded, false);
    assert.deepEqual((await queue.getProperties()).metadata, { team: "core" });
    await queue.delete();
  });

  for (const [name, code] of [["Upper", "InvalidResourceName"], ["a--b", "InvalidResourceName"], ["ab", "OutOfRangeInput"], ["x".repeat(64), "OutOfRangeInput"]]) {
    it(`are not named ${name.slice(0, 8)}`, () => refused(service.getQueueClient(name).create(), 400, code));
  }

  it("have metadata", withQueue(async (queue) => {
    await queue.setMetadata({ team: "core", zone: "two words" });
    assert.deepEqual((await queue.getProperties()).metadata, { team: "core", zone: "two words" });
    await refused(queue.setMetadata({ "1bad": "x" }), 400, "InvalidMetadata");
    await queue.setMetadata({});
    assert.deepEqual((await queue.getProperties()).metadata ?? {}, {});
  }));

  it("are listed in pages", async () => {
    const prefix = uniqueName();
    const names = [0, 1, 2, 3, 4].map((number) => `${prefix}-${number}`);
    for (const name of names) await service.createQueue(name, { metadata: { number: name.at(-1) } });
    const found = await collect(service.listQueues({ prefix, includeMetadata: true }));
    assert.deepEqual(found.map((queue) => queue.name), names);
    assert.deepEqual(found.map((queue) => queue.metadata.number), ["0", "1", "2", "3", "4"]);
    const pages = await collect(service.listQueues({ prefix }).byPage({ maxPageSize: 2 }));
    assert.deepEqual(pages.map((page) => page.queueItems.map((queue) => queue.name)), [names.slice(0, 2), names.slice(2, 4), names.slice(4)]);
    for (const name of names) await service.deleteQueue(name);
  });

  it("need the right key", withQueue(async (queue) => {
    const stranger = new QueueServiceClient(ENDPOINT, new StorageSharedKeyCredential(ACCOUNT, WRONG_KEY), OPTIONS);
    await refused(stranger.getQueueClient(queue.name).getProperties(), 403, "AuthenticationFailed");
  }));

  it("are reached by a connection string", withQueue(async (queue) => {
    await queue.sendMessage("x");
    const again = QueueServiceClient.fromConnectionString(CONNECTION_STRING, OPTIONS);
    assert.deepEqual(await texts(again.getQueueClient(queue.name)), ["x"]);
  }));
});

describe("the service", () => {
  const off = { enabled: false };
  const week = { enabled: true, days: 7 };
  const EVERYTHING_OFF = {
    queueAnalyticsLogging: { version: "1.0", read: false, write: false, deleteProperty: false, retentionPolicy: off },
    hourMetrics: { version: "1.0", enabled: false, retentionPolicy: off },
    minuteMetrics: { version: "1.0", enabled: false, retentionPolicy: off },
    cors: [],
  };
  after(() => service.setProperties(EVERYTHING_OFF));

  it("has properties", async () => {
    const wanted = {
      queueAnalyticsLogging: { version: "1.0", read: true, write: false, deleteProperty: true, retentionPolicy: week },
      hourMetrics: { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy: week },
      minuteMetrics: { version: "1.0", enabled: true, includeAPIs: false, retentionPolicy: off },
      cors: [{ allowedOrigins: "http://www.example.com", allowedMethods: "GET,PUT", allowedHeaders: "x-ms-*", exposedHeaders: "x-ms-*", maxAgeInSeconds: 500 }],
    };
    // The properties belong to the whole account: another run may have written between our two steps.
    for (let attempt = 1; ; attempt++) {
      try {
        await service.setProperties(wanted);
        const { queueAnalyticsLogging, hourMetrics, minuteMetrics, cors } = await service.getProperties();
        assert.deepEqual(JSON.parse(JSON.stringify({ queueAnalyticsLogging, hourMetrics, minuteMetrics, cors })), wanted);
        return;
      } catch (error) {
        if (attempt === 5) throw error;
      }
    }
  });

  it("has statistics on the secondary", async () => {
    const { _response } = await new QueueServiceClient(SECONDARY, CREDENTIAL, OPTIONS).getStatistics();
    // The client looks below a root element QueueServiceStats, where the service sends StorageServiceStats.
    assert.match(_response.bodyAsText, /<Status>(live|bootstrap|unavailable)<\/Status>/);
  });
});
