"use strict";

const assert = require("node:assert/strict");
const { after, before, describe, it } = require("node:test");
const { TableQuery, TableUtilities } = require("azure-storage");
const { entity, etagOf, pagesOf, refused, rowKeys, service, uniqueName, valuesOf, withTable } = require("./support");

const make = TableUtilities.entityGenerator;
const NO_METADATA = TableUtilities.PayloadFormat.NO_METADATA;
const under = (etag, body) => ({ ...body, ".metadata": { etag } });

describe("entities", () => {
  it("insert, with and without the entity in the answer", withTable(async (table) => {
    const quiet = await service.insertEntity(table, entity("quiet", { a: 1 }));
    assert.deepEqual(Object.keys(quiet), [".metadata"]);
    const loud = await service.insertEntity(table, entity("loud", { a: 1 }), { echoContent: true });
    assert.deepEqual(valuesOf(loud), { a: 1 });
    for (const [row, answer] of [["quiet", quiet], ["loud", loud]]) {
      assert.equal(etagOf(answer), etagOf(await service.retrieveEntity(table, "p", row)));
    }
  }));

  it("insert twice", withTable(async (table) => {
    await service.insertEntity(table, entity());
    await refused(service.insertEntity(table, entity()), 409, "EntityAlreadyExists");
  }));

  for (const [method, expected] of [
    ["mergeEntity", { a: 1, b: 3, c: 4 }],
    ["replaceEntity", { b: 3, c: 4 }],
    ["insertOrMergeEntity", { a: 1, b: 3, c: 4 }],
    ["insertOrReplaceEntity", { b: 3, c: 4 }],
  ]) {
    it(`${method} over an entity`, withTable(async (table) => {
      const before = await service.insertEntity(table, entity("r", { a: 1, b: 2 }));
      const answer = await service[method](table, entity("r", { b: 3, c: 4 }));
      const stored = await service.retrieveEntity(table, "p", "r");
      assert.deepEqual(valuesOf(stored), expected);
      assert.equal(etagOf(stored), etagOf(answer));
      assert.notEqual(etagOf(stored), etagOf(before));
    }));
  }

  for (const method of ["mergeEntity", "replaceEntity"]) {
    it(`${method} under an ETag`, withTable(async (table) => {
      await refused(service[method](table, entity()), 404, "ResourceNotFound");
      const first = etagOf(await service.insertEntity(table, entity("r", { a: 1 })));
      await service[method](table, under(first, entity("r", { a: 2 })));
      await refused(service[method](table, under(first, entity("r", { a: 3 }))), 412, "UpdateConditionNotSatisfied");
      assert.deepEqual(valuesOf(await service.retrieveEntity(table, "p", "r")), { a: 2 });
    }));
  }

  for (const method of ["insertOrMergeEntity", "insertOrReplaceEntity"]) {
    it(`${method} inserts`, withTable(async (table) => {
      await service[method](table, entity("r", { a: 1 }));
      assert.deepEqual(valuesOf(await service.retrieveEntity(table, "p", "r")), { a: 1 });
    }));
  }

  it("delete", withTable(async (table) => {
    const stale = etagOf(await service.insertEntity(table, entity()));
    await service.insertOrReplaceEntity(table, entity());
    await refused(service.deleteEntity(table, under(stale, entity())), 412, "UpdateConditionNotSatisfied");
    await service.deleteEntity(table, entity());
    await refused(service.deleteEntity(table, entity()), 404, "ResourceNotFound");
    await refused(service.retrieveEntity(table, "p", "r"), 404, "ResourceNotFound");
  }));

  it("an ETag made of the Timestamp, its colons not escaped, is good", withTable(async (table) => {
    await service.insertEntity(table, entity("r", { a: 1 }));
    const { entries } = await service.queryEntities(table, null, null, { payloadFormat: NO_METADATA });
    const [plain] = entries;
    assert.match(etagOf(plain), /T\d\d:\d\d:/);
    plain.a._ = 2;
    await service.replaceEntity(table, plain);
    await refused(service.replaceEntity(table, plain), 412, "UpdateConditionNotSatisfied");
  }));

  it("a missing table", async () => {
    const table = uniqueName();
    await refused(service.retrieveEntity(table, "p", "r"), 404, "TableNotFound");
    await refused(service.insertEntity(table, entity()), 404, "TableNotFound");
    await refused(service.queryEntities(table, null, null), 404, "TableNotFound");
  });

  const refusals = {
    "a string too large": [{ a: "x".repeat(32769) }, "PropertyValueTooLarge"],
    "a forbidden key": [{ RowKey: { _: "a/b" } }, "OutOfRangeInput"],
    "too many properties": [Object.fromEntries(Array.from({ length: 253 }, (_, n) => [`p${n}`, n])), "TooManyProperties"],
    "a name too long": [{ ["n".repeat(256)]: 1 }, "PropertyNameTooLong"],
    "a date too early": [{ a: make.DateTime(new Date("1600-01-01T00:00:00Z")) }, "OutOfRangeInput"],
  };
  for (const [name, [properties, code]] of Object.entries(refusals)) {
    it(name, withTable(async (table) => {
      await refused(service.insertEntity(table, { ...entity(), ...properties }), 400, code);
    }));
  }

  for (const key of ["", "a b", "it's", '"x"', "100%", "a%20b", "a+b", "a,b=c(d)&e$", "grüße", "日本語", "🦀"]) {
    it(`key ${JSON.stringify(key)}`, withTable(async (table) => {
      await service.insertEntity(table, entity(key, { a: 1 }, key));
      await service.mergeEntity(table, entity(key, { b: 2 }, key));
      assert.deepEqual(valuesOf(await service.retrieveEntity(table, key, key)), { a: 1, b: 2 });
      const query = new TableQuery().where("PartitionKey eq ? and RowKey eq ?", key, key);
      assert.deepEqual(await rowKeys(table, query), [key]);
      await service.deleteEntity(table, entity(key, {}, key));
      assert.deepEqual(await rowKeys(table), []);
    }));
  }
});

describe("types", () => {
  const table = uniqueName();
  before(() => service.createTable(table));
  after(() => service.deleteTable(table));

  // Numbers come without their type unless they need it.
  const values = {
    int32: [make.Int32(-2147483648), undefined, -2147483648],
    int64: [make.Int64("9223372036854775807"), "Edm.Int64", "9223372036854775807"],
    "smallest int64": [make.Int64("-9223372036854775808"), "Edm.Int64", "-9223372036854775808"],
    boolean: [make.Boolean(false), "Edm.Boolean", false],
    double: [make.Double(0.1 + 0.2), undefined, 0.1 + 0.2],
    "double huge": [make.Double(1e308), undefined, 1e308],
    "double tiny": [make.Double(5e-324), undefined, 5e-324],
    "double NaN": [make.Double(NaN), "Edm.Double", NaN],
    "double Infinity": [make.Double(Infinity), "Edm.Double", Infinity],
    "double -Infinity": [make.Double(-Infinity), "Edm.Double", -Infinity],
    string: [make.String("日本 🦀 'q' \n"), "Edm.String", "日本 🦀 'q' \n"],
    "string empty": [make.String(""), "Edm.String", ""],
    guid: [make.Guid("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"), "Edm.Guid", "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"],
    binary: [make.Binary(Buffer.from([0, 251, 255])), "Edm.Binary", Buffer.from([0, 251, 255])],
    datetime: [make.DateTime(new Date("2026-01-02T03:04:05.120Z")), "Edm.DateTime", new Date("2026-01-02T03:04:05.120Z")],
  };
  for (const [name, [sent, type, expected]] of Object.entries(values)) {
    it(name, async () => {
      const row = name.replaceAll(" ", "");
      await service.insertEntity(table, entity(row, { value: sent }));
      const { value } = await service.retrieveEntity(table, "p", row, { autoResolveProperties: true });
      assert.deepEqual(value, type ? { $: type, _: expected } : { _: expected });
    });
  }

  it("a whole number as a double", async () => {
    await service.insertEntity(table, entity("whole", { whole: make.Double(3) }));
    assert.deepEqual(await rowKeys(table, new TableQuery().where("whole eq 3.0")), ["whole"]);
  });

  it("no value", async () => {
    await service.insertEntity(table, entity("none", { a: null, b: make.String(undefined), c: 1 }));
    assert.deepEqual(valuesOf(await service.retrieveEntity(table, "p", "none")), { c: 1 });
  });
});

describe("queries", () => {
  const table = uniqueName();
  before(async () => {
    await service.createTable(table);
    const rows = [
      entity("a", { int: 1, text: "it's", flag: true, when: new Date("2026-03-10T12:00:00.500Z") }),
      entity("b", { int: 2, text: "日本", flag: false, long: make.Int64("9007199254740993") }),
      entity("c", { real: 1.5, id: make.Guid("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"), data: make.Binary(Buffer.from([1, 255])) }, "q"),
    ];
    for (const row of rows) await service.insertEntity(table, row);
  });
  after(() => service.deleteTable(table));

  for (const [name, query, expected] of [
    ["all", null, "abc"],
    ["partition", new TableQuery().where("PartitionKey == ?", "p"), "ab"],
    ["and", new TableQuery().where("PartitionKey eq ?", "p").and("int gt ?int32?", 1), "b"],
    ["or", new TableQuery().where("RowKey eq ?", "a").or("RowKey eq ?", "c"), "ac"],
    ["not", new TableQuery().where("not (PartitionKey eq ?)", "p"), "c"],
    ["quote", new TableQuery().where("text eq ?string?", "it's"), "a"],
    ["unicode", new TableQuery().where("text eq ?", "日本"), "b"],
    ["boolean", new TableQuery().where("flag eq ?bool?", true), "a"],
    ["date", new TableQuery().where("when ge ?date?", new Date("2026-03-10T12:00:00.500Z")), "a"],
    ["int64", new TableQuery().where("long eq ?int64?", "9007199254740993"), "b"],
    ["double", new TableQuery().where("real lt ?double?", 1.75), "c"],
    ["guid", new TableQuery().where("id eq ?guid?", "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"), "c"],
    ["binary", new TableQuery().where("data eq ?binary?", Buffer.from([1, 255])), "c"],
  ]) {
    it(name, async () => assert.equal((await rowKeys(table, query)).join(""), expected));
  }

  it("select", async () => {
    const query = new TableQuery().select("RowKey", "int").where("int ge 2");
    const [[found]] = await pagesOf(table, query);
    delete found[".metadata"];
    assert.deepEqual(found, { RowKey: { $: "Edm.String", _: "b" }, int: { _: 2 } });
  });

  for (const level of ["NO_METADATA", "MINIMAL_METADATA", "FULL_METADATA"]) {
    it(level, async () => {
      const options = { payloadFormat: TableUtilities.PayloadFormat[level] };
      const { entries } = await service.queryEntities(table, null, null, options);
      assert.equal(entries.length, 3);
      assert.equal("editLink" in entries[0][".metadata"], level === "FULL_METADATA");
      assert.equal(entries[1].long.$, level === "NO_METADATA" ? undefined : "Edm.Int64");
    });
  }

  it("bad syntax", () => refused(service.queryEntities(table, new TableQuery().where("aaa bbb ccc"), null), 400, "InvalidInput"));
});
