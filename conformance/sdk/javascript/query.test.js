"use strict";

const assert = require("node:assert/strict");
const { after, before, describe, it } = require("node:test");
const { odata } = require("@azure/data-tables");
const { collect, entity, refused, rowKeys, service, tableClient, uniqueName } = require("./support");

const NOON = new Date("2026-03-10T12:00:00.500Z");
const ID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
const ENTITIES = [
  entity("a", { int: 1, long: 1n, real: 1.5, flag: true, text: "apple" }, "p1"),
  entity("b", { int: 2, long: 9007199254740993n, real: -2.5, flag: false, text: "it's" }, "p1"),
  entity("c", { when: NOON, id: { type: "Guid", value: ID }, data: new Uint8Array([1, 2, 255]), text: "日本 🦀" }, "p2"),
  entity("d", { text: "a+b&c=d%20e#f" }, "p2"),
];

describe("filters", () => {
  const table = tableClient(uniqueName());
  before(async () => {
    await table.createTable();
    for (const each of ENTITIES) await table.createEntity(each);
  });
  after(() => table.deleteTable());

  for (const [filter, expected] of [
    ["", "abcd"],
    [odata`PartitionKey eq ${"p1"}`, "ab"],
    [odata`PartitionKey eq ${"p2"} and RowKey gt ${"c"}`, "d"],
    [odata`text eq ${"it's"}`, "b"],
    [odata`text eq ${"日本 🦀"}`, "c"],
    [odata`text eq ${"a+b&c=d%20e#f"}`, "d"],
    [odata`when eq ${NOON}`, "c"],
    [odata`when lt ${NOON}`, ""],
    [odata`int ge ${2}`, "b"],
    [odata`flag eq ${false}`, "b"],
    ["long eq 9007199254740993L", "b"],
    ["real lt 0", "b"],
    [`id eq guid'${ID}'`, "c"],
    ["data eq X'0102ff'", "c"],
    ["not (int ge 0)", "cd"],
    ["int ne 1", "b"],
    ["(PartitionKey eq 'p1' and int eq 1) or RowKey eq 'd'", "ad"],
    ["1 eq int", "a"],
  ]) {
    it(filter || "none", async () => {
      assert.equal((await rowKeys(table.listEntities({ queryOptions: { filter } }))).join(""), expected);
    });
  }

  for (const [filter, status, code] of [
    ["aaa bbb ccc", 400, "InvalidInput"],
    ["text eq 'open", 400, "InvalidInput"],
    ["text eq null", 400, "InvalidInput"],
    ["startswith(text,'a')", 501, "NotImplemented"],
  ]) {
    it(`${filter} is refused`, () =>
      refused(collect(table.listEntities({ queryOptions: { filter } })), status, code));
  }
});

describe("pages", () => {
  const table = tableClient(uniqueName());
  const keys = ["p 1", "p%4", "p'2", "p+3", "pé5"].flatMap((partition) =>
    Array.from({ length: 500 }, (_, number) => [partition, `r${String(number).padStart(3, "0")}`]),
  );
  const keysOf = (pages) => pages.flat().map((found) => [found.partitionKey, found.rowKey]);

  before(async () => {
    await service.createTable(table.tableName);
    for (let start = 0; start < keys.length; start += 100) {
      const chunk = keys.slice(start, start + 100);
      await table.submitTransaction(chunk.map(([partition, row], index) => ["create", entity(row, { number: start + index }, partition)]));
    }
  });
  after(() => table.deleteTable());

  for (const [maxPageSize, sizes] of [[undefined, [1000, 1000, 500]], [1000, [1000, 1000, 500]], [500, [500, 500, 500, 500, 500]]]) {
    it(`of ${maxPageSize}`, async () => {
      const pages = await collect(table.listEntities().byPage({ maxPageSize }));
      assert.deepEqual(pages.map((page) => page.length), sizes);
      assert.deepEqual(keysOf(pages), keys);
    });
  }

  it("are hidden by plain iteration", async () => {
    const numbers = (await collect(table.listEntities())).map((found) => found.number);
    assert.deepEqual(numbers, keys.map((_, index) => index));
  });

  it("are resumed by another client", async () => {
    const seen = [];
    let continuationToken;
    do {
      const pages = tableClient(table.tableName).listEntities().byPage({ maxPageSize: 900, continuationToken });
      const { value: page } = await pages.next();
      seen.push(page);
      ({ continuationToken } = page);
    } while (continuationToken);
    assert.deepEqual(seen.map((page) => page.length), [900, 900, 700]);
    assert.deepEqual(keysOf(seen), keys);
  });

  it("of a filter", async () => {
    const options = { queryOptions: { filter: "number ge 1234", select: ["partitionKey", "rowKey"] } };
    const pages = await collect(table.listEntities(options).byPage({ maxPageSize: 300 }));
    assert.ok(pages.every((page) => page.length <= 300));
    assert.deepEqual(keysOf(pages), keys.slice(1234));
  });

  it("of more than 1000 are refused", () =>
    refused(collect(table.listEntities().byPage({ maxPageSize: 1001 })), 400, "InvalidInput"));
});
