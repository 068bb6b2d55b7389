"use strict";

const assert = require("node:assert/strict");
const { after, describe, it } = require("node:test");
const { TableClient, TableServiceClient } = require("@azure/data-tables");
const { CREDENTIAL, OPTIONS, SECONDARY, entity, refused, rowKeys, service, withTable } = require("./support");

const off = { enabled: false };
const week = { enabled: true, days: 7 };
const EVERYTHING_OFF = {
  logging: { version: "1.0", read: false, write: false, delete: false, retentionPolicy: off },
  hourMetrics: { version: "1.0", enabled: false, retentionPolicy: off },
  minuteMetrics: { version: "1.0", enabled: false, retentionPolicy: off },
  cors: [],
};

/** The client lists what it has not received as undefined. */
const withoutGaps = (value) => JSON.parse(JSON.stringify(value));

/** The properties belong to the whole account: another run may have written between our two steps. */
async function agreeing(check) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await check();
    } catch (error) {
      if (error.name !== "AssertionError" || attempt === 5) throw error;
    }
  }
}

describe("service properties", () => {
  after(() => service.setProperties(EVERYTHING_OFF));

  const groups = {
    logging: { version: "1.0", read: true, write: false, delete: true, retentionPolicy: week },
    hourMetrics: { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy: week },
    minuteMetrics: { version: "1.0", enabled: true, includeAPIs: false, retentionPolicy: off },
    cors: [
      {
        allowedOrigins: "http://www.example.com,http://b.example",
        allowedMethods: "GET,PUT",
        allowedHeaders: "x-ms-meta-abc,x-ms-meta-data*",
        exposedHeaders: "x-ms-meta-*",
        maxAgeInSeconds: 500,
      },
    ],
  };
  for (const [group, wanted] of Object.entries(groups)) {
    it(`${group} round trip`, () => agreeing(async () => {
      await service.setProperties({ [group]: wanted });
      assert.deepEqual(withoutGaps((await service.getProperties())[group]), wanted);
    }));
  }

  it("can be switched off", () => agreeing(async () => {
    await service.setProperties(EVERYTHING_OFF);
    const { logging, hourMetrics, minuteMetrics, cors } = await service.getProperties();
    assert.deepEqual(withoutGaps({ logging, hourMetrics, minuteMetrics, cors: cors ?? [] }), EVERYTHING_OFF);
  }));

  it("refuse a sixth rule", () =>
    refused(service.setProperties({ cors: Array(6).fill(groups.cors[0]) }), 400, "InvalidXmlDocument"));

  it("refuse 366 days", () =>
    refused(
      service.setProperties({ hourMetrics: { ...groups.hourMetrics, retentionPolicy: { enabled: true, days: 366 } } }),
      400, "InvalidXmlDocument"));
});

describe("secondary", () => {
  // The client looks for the secondary under another host name, also where the account is in the path.
  const keepHost = {
    name: "keepHost",
    sendRequest: (request, next) => {
      request.url = SECONDARY + request.url.slice(request.url.indexOf("-secondary/") + "-secondary".length);
      return next(request);
    },
  };

  it("has statistics", async () => {
    const options = { ...OPTIONS, additionalPolicies: [{ policy: keepHost, position: "perCall" }] };
    const { geoReplication } = await new TableServiceClient(SECONDARY, CREDENTIAL, options).getStatistics();
    assert.ok(["live", "bootstrap", "unavailable"].includes(geoReplication.status), geoReplication.status);
    assert.equal(geoReplication.lastSyncTime instanceof Date, geoReplication.status === "live");
  });

  it("is read-only", withTable(async (table) => {
    await table.createEntity(entity());
    const copy = new TableClient(SECONDARY, table.tableName, CREDENTIAL, OPTIONS);
    assert.deepEqual(await rowKeys(copy.listEntities()), ["r"]);
    await refused(copy.createEntity(entity("new")), 403, "InsufficientAccountPermissions");
  }));
});
