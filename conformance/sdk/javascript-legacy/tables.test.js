"use strict";

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const { entity, fromConnectionString, refused, rowKeys, service, stranger, uniqueName, valuesOf, withTable } = require("./support");

describe("tables", () => {
  it("exist from creation to deletion", async () => {
    const name = uniqueName("Mixed");
    assert.equal((await service.doesTableExist(name)).exists, false);
    assert.equal((await service.createTable(name)).TableName, name);
    assert.equal((await service.doesTableExist(name)).exists, true);
    await service.deleteTable(name);
    assert.equal((await service.doesTableExist(name)).exists, false);
  });

  it("are created once", withTable(async (table) => {
    await refused(service.createTable(table), 409, "TableAlreadyExists");
    await refused(service.createTable(table.toUpperCase()), 409, "TableAlreadyExists");
    assert.equal((await service.createTableIfNotExists(table)).created, false);
    const other = uniqueName();
    assert.equal((await service.createTableIfNotExists(other)).created, true);
    assert.equal(await service.deleteTableIfExists(other), true);
    assert.equal(await service.deleteTableIfExists(other), false);
    await refused(service.deleteTable(other), 404, "ResourceNotFound");
  }));

  it("are listed by prefix and in pages", async () => {
    const prefix = uniqueName();
    const names = [..."abcde"].map((letter) => prefix + letter);
    for (const name of names) await service.createTable(name);
    const found = await service.listTablesSegmentedWithPrefix(prefix, null);
    assert.deepEqual(found.entries, names);

    const pages = [];
    let token = null;
    do {
      const page = await service.listTablesSegmentedWithPrefix(prefix, token, { maxResults: 2 });
      pages.push(page.entries);
      token = page.continuationToken;
    } while (token);
    assert.deepEqual(pages, [names.slice(0, 2), names.slice(2, 4), names.slice(4)]);
    for (const name of names) await service.deleteTable(name);
  });

  it("need the right key", withTable(async (table) => {
    await refused(stranger.createTable(uniqueName()), 403, "AuthenticationFailed");
    await refused(stranger.insertEntity(table, entity()), 403, "AuthenticationFailed");
    assert.deepEqual(await rowKeys(table), []);
  }));

  it("are reached by a connection string", withTable(async (table) => {
    await fromConnectionString().insertEntity(table, entity("r", { a: 7 }));
    assert.deepEqual(valuesOf(await service.retrieveEntity(table, "p", "r")), { a: 7 });
  }));
});

describe("service properties", () => {
  // They belong to the whole account: another run may have written between our two steps.
  async function agreeing(check) {
    for (let attempt = 1; ; attempt++) {
      try {
        return await check();
      } catch (error) {
        if (error.name !== "AssertionError" || attempt === 5) throw error;
      }
    }
  }

  it("round trip", () => agreeing(async () => {
    const off = await service.getServiceProperties();
    off.Logging = { Version: "1.0", Read: false, Write: false, Delete: false, RetentionPolicy: { Enabled: false } };
    off.HourMetrics = { Version: "1.0", Enabled: false, RetentionPolicy: { Enabled: false } };
    off.MinuteMetrics = off.HourMetrics;
    off.Cors = {};
    const wanted = {
      Logging: { Version: "1.0", Read: true, Write: true, Delete: true, RetentionPolicy: { Enabled: true, Days: 10 } },
      HourMetrics: { Version: "1.0", Enabled: true, IncludeAPIs: true, RetentionPolicy: { Enabled: true, Days: 10 } },
      Cors: {
        CorsRule: [
          {
            AllowedOrigins: ["http://www.example.com", "http://b.example"],
            AllowedMethods: ["GET", "PUT"],
            AllowedHeaders: ["x-ms-meta-xyz"],
            ExposedHeaders: ["x-ms-meta-*"],
            MaxAgeInSeconds: 500,
          },
        ],
      },
    };
    try {
      await service.setServiceProperties(wanted);
      const { Logging, HourMetrics, Cors } = await service.getServiceProperties();
      assert.deepEqual({ Logging, HourMetrics, Cors }, wanted);
    } finally {
      await service.setServiceProperties(off);
    }
  }));

  it("statistics of the secondary", async () => {
    const { GeoReplication } = await service.getServiceStats({ locationMode: 2 });
    assert.ok(["live", "bootstrap", "unavailable"].includes(GeoReplication.Status), GeoReplication.Status);
  });
});
