"use strict";

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const { odata } = require("@azure/data-tables");
const { STALE, collect, entity, propertiesOf, refused, rowKeys, tableClient, uniqueName, withTable } = require("./support");

describe("insert and get", () => {
  it("insert answers with the ETag of the entity", withTable(async (table) => {
    const { etag } = await table.createEntity(entity("r", { name: "x" }));
    const stored = await table.getEntity("p", "r");
    assert.match(etag, /^W\/"datetime'.*'"$/);
    assert.equal(stored.etag, etag);
    assert.deepEqual(propertiesOf(stored), { name: "x" });
    // The ETag is the Timestamp, with its colons escaped.
    assert.equal(etag, `W/"datetime'${stored.timestamp.replaceAll(":", "%3A")}'"`);
  }));

  it("insert prefers an answer without content", withTable(async (table) => {
    const { preferenceApplied } = await table.createEntity(entity());
    assert.equal(preferenceApplied, "return-no-content");
  }));

  it("a second insert is refused", withTable(async (table) => {
    await table.createEntity(entity("r", { value: 1 }));
    const error = await refused(table.createEntity(entity("r", { value: 2 })), 409, "EntityAlreadyExists");
    assert.equal(error.details.odataError.code, "EntityAlreadyExists");
    assert.equal((await table.getEntity("p", "r")).value, 1);
  }));

  it("a missing entity and a missing table", withTable(async (table) => {
    await refused(table.getEntity("p", "r"), 404, "ResourceNotFound");
    await refused(table.deleteEntity("p", "r"), 404, "ResourceNotFound");
    const nowhere = tableClient(uniqueName());
    await refused(nowhere.getEntity("p", "r"), 404, "TableNotFound");
    await refused(nowhere.createEntity(entity()), 404, "TableNotFound");
    await refused(nowhere.upsertEntity(entity()), 404, "TableNotFound");
    await refused(nowhere.updateEntity(entity()), 404, "TableNotFound");
    await refused(nowhere.deleteEntity("p", "r"), 404, "TableNotFound");
    await refused(collect(nowhere.listEntities()), 404, "TableNotFound");
  }));
});

describe("update, upsert and delete", () => {
  for (const [write, mode, expected] of [
    ["upsertEntity", "Merge", { a: 1, b: 3, c: 4 }],
    ["upsertEntity", "Replace", { b: 3, c: 4 }],
    ["updateEntity", "Merge", { a: 1, b: 3, c: 4 }],
    ["updateEntity", "Replace", { b: 3, c: 4 }],
  ]) {
    it(`${write} ${mode} over an entity`, withTable(async (table) => {
      const before = await table.createEntity(entity("r", { a: 1, b: 2 }));
      const after = await table[write](entity("r", { b: 3, c: 4 }), mode);
      const stored = await table.getEntity("p", "r");
      assert.deepEqual(propertiesOf(stored), expected);
      assert.notEqual(after.etag, before.etag);
      assert.equal(stored.etag, after.etag);
    }));
  }

  for (const mode of ["Merge", "Replace"]) {
    it(`upsertEntity ${mode} inserts`, withTable(async (table) => {
      await table.upsertEntity(entity("r", { a: 1 }), mode);
      assert.deepEqual(propertiesOf(await table.getEntity("p", "r")), { a: 1 });
    }));

    it(`updateEntity ${mode} of a missing entity`, withTable(async (table) => {
      await refused(table.updateEntity(entity(), mode), 404, "ResourceNotFound");
      await refused(table.updateEntity(entity(), mode, { etag: STALE }), 404, "ResourceNotFound");
      assert.deepEqual(await collect(table.listEntities()), []);
    }));

    it(`updateEntity ${mode} under an ETag`, withTable(async (table) => {
      const first = (await table.createEntity(entity("r", { a: 1 }))).etag;
      const second = (await table.updateEntity(entity("r", { a: 2 }), mode, { etag: first })).etag;
      await refused(table.updateEntity(entity("r", { a: 3 }), mode, { etag: first }), 412, "UpdateConditionNotSatisfied");
      assert.equal((await table.getEntity("p", "r")).a, 2);
      await table.updateEntity(entity("r", { a: 4 }), mode, { etag: second });
      await table.updateEntity(entity("r", { a: 5 }), mode, { etag: "*" });
      assert.equal((await table.getEntity("p", "r")).a, 5);
    }));
  }

  it("an ETag that is none is refused", withTable(async (table) => {
    await table.createEntity(entity());
    await refused(table.updateEntity(entity(), "Merge", { etag: "abc" }), 400, "InvalidInput");
  }));

  it("deleteEntity", withTable(async (table) => {
    const stale = (await table.createEntity(entity())).etag;
    const fresh = (await table.upsertEntity(entity())).etag;
    await refused(table.deleteEntity("p", "r", { etag: stale }), 412, "UpdateConditionNotSatisfied");
    await table.deleteEntity("p", "r", { etag: fresh });
    assert.deepEqual(await collect(table.listEntities()), []);
    await table.createEntity(entity());
    await table.deleteEntity("p", "r");
    assert.deepEqual(await collect(table.listEntities()), []);
  }));

  it("nulls are not stored and do not remove", withTable(async (table) => {
    await table.createEntity(entity("r", { a: 1, b: null }));
    await table.updateEntity(entity("r", { a: null, c: 3 }), "Merge");
    assert.deepEqual(propertiesOf(await table.getEntity("p", "r")), { a: 1, c: 3 });
    await table.updateEntity(entity("r", { a: null, c: 3 }), "Replace");
    assert.deepEqual(propertiesOf(await table.getEntity("p", "r")), { c: 3 });
  }));

  it("what was read can be written back", withTable(async (table) => {
    await table.createEntity(entity("r", { a: 1 }));
    const [listed] = await collect(table.listEntities());
    const { etag } = await table.updateEntity({ ...listed, b: 2 }, "Replace", { etag: listed.etag });
    assert.notEqual(etag, listed.etag);
    const stored = await table.getEntity("p", "r");
    assert.deepEqual([stored.a, stored.b], [1, 2]);
  }));
});

describe("select", () => {
  for (const [select, expected] of [
    [["a"], { a: 1 }],
    [["partitionKey", "a"], { partitionKey: "p", a: 1 }],
    [["rowKey", "missing"], { rowKey: "r", missing: null }],
    [["A"], { A: null }],
  ]) {
    it(select.join(", "), withTable(async (table) => {
      const { etag } = await table.createEntity(entity("r", { a: 1, b: "two" }));
      const [listed] = await collect(table.listEntities({ queryOptions: { select } }));
      const stored = await table.getEntity("p", "r", { queryOptions: { select } });
      delete stored["odata.metadata"];
      assert.deepEqual(listed, { etag, ...expected });
      assert.deepEqual(stored, { etag, ...expected });
    }));
  }
});

describe("metadata levels", () => {
  for (const [level, names] of [
    ["nometadata", ["partitionKey", "rowKey", "timestamp", "a"]],
    ["minimalmetadata", ["etag", "partitionKey", "rowKey", "timestamp", "a"]],
    ["fullmetadata", ["odata.type", "odata.id", "etag", "odata.editLink", "partitionKey", "rowKey", "timestamp", "a"]],
  ]) {
    it(level, withTable(async (table) => {
      await table.createEntity(entity("r", { a: 1 }));
      const requestOptions = { customHeaders: { accept: `application/json;odata=${level}` } };
      const [listed] = await collect(table.listEntities({ requestOptions }));
      assert.deepEqual(Object.keys(listed).sort(), names.sort());
    }));
  }
});

const KEYS = {
  empty: "",
  space: "a b",
  quote: "it's",
  "only quotes": "''",
  "double quote": 'say "x"',
  percent: "100%",
  "percent escape": "a%20b%2Fc",
  plus: "a+b",
  punctuation: "a,b=c(d)e;f:g@h&i$j!k*l~m|n^o`p[q]r{s}t<u>v",
  accents: "grüße ñ",
  "other scripts": "日本語 Ελλάδα",
  "outside the basic plane": "🦀𝄞",
};

describe("keys", () => {
  for (const [name, key] of Object.entries(KEYS)) {
    it(name, withTable(async (table) => {
      const keyed = (properties) => entity(key, properties, key);
      await table.createEntity(keyed({ a: 1 }));
      await table.updateEntity(keyed({ b: 2 }), "Merge");
      await table.upsertEntity(keyed({ c: 3 }), "Merge");
      assert.deepEqual(propertiesOf(await table.getEntity(key, key)), { a: 1, b: 2, c: 3 });
      const filter = odata`PartitionKey eq ${key} and RowKey eq ${key}`;
      assert.deepEqual(await rowKeys(table.listEntities({ queryOptions: { filter } })), [key]);
      await table.submitTransaction([["update", keyed({ d: 4 }), "Replace"]]);
      assert.deepEqual(propertiesOf(await table.getEntity(key, key)), { d: 4 });
      await table.deleteEntity(key, key);
      assert.deepEqual(await collect(table.listEntities()), []);
    }));
  }

  for (const character of ["/", "\\", "#", "?", "\t", "\u007f"]) {
    it(`${JSON.stringify(character)} is forbidden`, withTable(async (table) => {
      await refused(table.createEntity(entity(`a${character}b`)), 400, "OutOfRangeInput");
      await refused(table.createEntity(entity("r", {}, `a${character}b`)), 400, "OutOfRangeInput");
    }));
  }

  for (const missing of ["partitionKey", "rowKey"]) {
    it(`${missing} is needed`, withTable(async (table) => {
      await refused(table.createEntity({ ...entity(), [missing]: undefined }), 400, "PropertiesNeedValue");
    }));
  }
});

const many = (count, value) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, value]));
const LIMITS = {
  "string of 32768 characters": [{ a: "x".repeat(32768) }, undefined],
  "string of 32769 characters": [{ a: "x".repeat(32769) }, "PropertyValueTooLarge"],
  "binary of 65536 bytes": [{ a: Buffer.alloc(65536) }, undefined],
  "binary of 65537 bytes": [{ a: Buffer.alloc(65537) }, "PropertyValueTooLarge"],
  "252 properties": [many(252, 1), undefined],
  "253 properties": [many(253, 1), "TooManyProperties"],
  "name of 255 characters": [{ ["n".repeat(255)]: 1 }, undefined],
  "name of 256 characters": [{ ["n".repeat(256)]: 1 }, "PropertyNameTooLong"],
  "entity over 1 MiB": [many(16, "x".repeat(32768)), "EntityTooLarge"],
};

describe("limits", () => {
  for (const [name, [properties, code]] of Object.entries(LIMITS)) {
    it(name, withTable(async (table) => {
      const insert = table.createEntity(entity("r", properties));
      if (code) {
        await refused(insert, 400, code);
        assert.deepEqual(await collect(table.listEntities()), []);
      } else {
        await insert;
        assert.deepEqual(propertiesOf(await table.getEntity("p", "r")), properties);
      }
    }));
  }
});
