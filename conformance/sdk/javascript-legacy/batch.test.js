"use strict";

const assert = require("node:assert/strict");
const { after, before, describe, it } = require("node:test");
const { TableBatch, TableQuery } = require("azure-storage");
const { entity, etagOf, pagesOf, refused, rowKeys, service, stranger, uniqueName, valuesOf, withTable } = require("./support");

function batchOf(...operations) {
  const batch = new TableBatch();
  for (const [kind, ...args] of operations) batch[kind](...args);
  return batch;
}

describe("batches", () => {
  it("hold every kind of operation", withTable(async (table) => {
    for (const row of "abcde") await service.insertEntity(table, entity(row, { a: 1, b: 1 }));
    const answers = await service.executeBatch(table, batchOf(
      ["insertEntity", entity("quiet", { a: 2 })],
      ["insertEntity", entity("loud", { a: 2 }), { echoContent: true }],
      ["mergeEntity", entity("a", { a: 2 })],
      ["replaceEntity", entity("b", { a: 2 })],
      ["insertOrMergeEntity", entity("c", { a: 2 })],
      ["insertOrReplaceEntity", entity("d", { a: 2 })],
      ["deleteEntity", entity("e")],
    ));
    assert.deepEqual(answers.map((answer) => answer.response.statusCode), [204, 201, 204, 204, 204, 204, 204]);
    assert.deepEqual(valuesOf(answers[1].entity), { a: 2 });
    const stored = (await pagesOf(table)).flat();
    assert.deepEqual(stored.map((found) => [found.RowKey._, valuesOf(found)]), [
      ["a", { a: 2, b: 1 }],
      ["b", { a: 2 }],
      ["c", { a: 2, b: 1 }],
      ["d", { a: 2 }],
      ["loud", { a: 2 }],
      ["quiet", { a: 2 }],
    ]);
    assert.equal(etagOf(answers[2].entity), etagOf(stored[0]));
  }));

  it("hold one query", withTable(async (table) => {
    await service.insertEntity(table, entity("r", { a: 1 }));
    const [found] = await service.executeBatch(table, batchOf(["retrieveEntity", "p", "r"]));
    assert.equal(found.response.statusCode, 200);
    assert.deepEqual(valuesOf(found.entity), { a: 1 });
    await refused(service.executeBatch(table, batchOf(["retrieveEntity", "p", "gone"])), 404, "ResourceNotFound");
  }));

  for (const [name, operation, status, code] of [
    ["insert of an existing entity", ["insertEntity", entity("old")], 409, "EntityAlreadyExists"],
    ["merge of a missing entity", ["mergeEntity", entity("gone")], 404, "ResourceNotFound"],
    ["delete of a missing entity", ["deleteEntity", entity("gone")], 404, "ResourceNotFound"],
    ["forbidden key", ["insertEntity", entity("a/b")], 400, "OutOfRangeInput"],
    ["the same entity again", ["insertEntity", entity("n0")], 400, "InvalidDuplicateRow"],
  ]) {
    it(`fail as one: ${name}`, withTable(async (table) => {
      await service.insertEntity(table, entity("old"));
      const batch = batchOf(["insertEntity", entity("n0")], ["insertEntity", entity("n1")], operation);
      const error = await refused(service.executeBatch(table, batch), status, code);
      assert.ok(error.message.startsWith("2:"), error.message);
      assert.deepEqual(await rowKeys(table), ["old"]);
    }));
  }

  it("carry text that looks like a boundary", withTable(async (table) => {
    const text = "--changeset\r\n--batch\nHTTP/1.1 404\n\n🦀";
    await service.executeBatch(table, batchOf(["insertEntity", entity("a", { text })], ["insertEntity", entity("b", { text })]));
    assert.deepEqual(valuesOf(await service.retrieveEntity(table, "p", "b")), { text });
  }));

  it("need the table and the key", withTable(async (table) => {
    await refused(service.executeBatch(uniqueName(), batchOf(["insertEntity", entity()])), 404, "TableNotFound");
    await refused(stranger.executeBatch(table, batchOf(["insertEntity", entity()])), 403, "AuthenticationFailed");
    assert.deepEqual(await rowKeys(table), []);
  }));
});

describe("pages", () => {
  const table = uniqueName();
  const rows = Array.from({ length: 2500 }, (_, number) => `it's ${String(number).padStart(4, "0")}`);
  before(async () => {
    await service.createTable(table);
    for (let start = 0; start < rows.length; start += 100) {
      const chunk = rows.slice(start, start + 100);
      await service.executeBatch(table, batchOf(...chunk.map((row) => ["insertEntity", entity(row)])));
    }
  });
  after(() => service.deleteTable(table));

  for (const [top, sizes] of [[null, [1000, 1000, 500]], [500, [500, 500, 500, 500, 500]], [999, [999, 999, 502]]]) {
    it(`of ${top}`, async () => {
      const pages = await pagesOf(table, top && new TableQuery().top(top));
      assert.deepEqual(pages.map((page) => page.length), sizes);
      assert.deepEqual(pages.flat().map((found) => found.RowKey._), rows);
    });
  }

  it("of more than 1000", () => refused(service.queryEntities(table, new TableQuery().top(1001), null), 400, "InvalidInput"));
});
