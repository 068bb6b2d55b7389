"use strict";

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const { AzureNamedKeyCredential, TableClient, TableServiceClient, odata } = require("@azure/data-tables");
const {
  ACCOUNT, CONNECTION_STRING, CREDENTIAL, ENDPOINT, KEY, OPTIONS, WRONG_KEY,
  collect, entity, refused, service, tableClient, uniqueName, withTable,
} = require("./support");

async function namesLike(filter) {
  return (await collect(service.listTables({ queryOptions: { filter } }))).map((table) => table.name);
}

describe("tables", () => {
  it("a created table is listed until it is deleted", async () => {
    const name = uniqueName("Mixed");
    await service.createTable(name);
    assert.deepEqual(await namesLike(odata`TableName eq ${name}`), [name]);
    assert.ok((await collect(service.listTables())).some((table) => table.name === name));
    await service.deleteTable(name);
    assert.deepEqual(await namesLike(odata`TableName eq ${name}`), []);
  });

  it("a second create is refused, which the client hides", withTable(async (table) => {
    for (const name of [table.tableName, table.tableName.toUpperCase()]) {
      let answer;
      await service.createTable(name, { onResponse: (response) => (answer = response) });
      assert.equal(answer.status, 409);
      assert.equal(answer.parsedBody.odataError.code, "TableAlreadyExists");
    }
  }));

  it("the delete of a missing table answers 404, which the client hides", async () => {
    let answer;
    await service.deleteTable(uniqueName(), { onResponse: (response) => (answer = response) });
    assert.equal(answer.status, 404);
  });

  it("a table that is made again is empty", async () => {
    const table = tableClient(uniqueName());
    await table.createTable();
    await table.createEntity(entity());
    await table.deleteTable();
    await refused(table.getEntity("p", "r"), 404, "TableNotFound");
    await table.createTable();
    assert.deepEqual(await collect(table.listEntities()), []);
    await table.deleteTable();
  });

  for (const [name, code] of [
    ["my_table", "InvalidResourceName"],
    ["1table", "InvalidResourceName"],
    ["has-dash", "InvalidResourceName"],
    ["ab", "OutOfRangeInput"],
    ["a".repeat(64), "OutOfRangeInput"],
    ["tables", "InvalidInput"],
  ]) {
    it(`the name ${name.slice(0, 20)} is refused`, () => refused(service.createTable(name), 400, code));
  }

  it("pages of tables", async () => {
    const prefix = uniqueName();
    const names = [..."abcde"].map((letter) => prefix + letter);
    for (const name of names) await service.createTable(name);
    const filter = odata`TableName ge ${prefix} and TableName lt ${prefix + "{"}`;
    const pages = await collect(service.listTables({ queryOptions: { filter } }).byPage({ maxPageSize: 2 }));
    assert.deepEqual(pages.map((page) => page.map((table) => table.name)), [names.slice(0, 2), names.slice(2, 4), names.slice(4)]);

    const { continuationToken } = pages[0];
    const resumed = service.listTables({ queryOptions: { filter } }).byPage({ maxPageSize: 2, continuationToken });
    assert.deepEqual((await collect(resumed)).flat().map((table) => table.name), names.slice(2));
    for (const name of names) await service.deleteTable(name);
  });

  it("a filter with bad syntax is refused", () => refused(namesLike("aaa bbb ccc"), 400, "InvalidInput"));

  it("connection strings reach the same table", withTable(async (table) => {
    await table.createEntity(entity("r", { value: 7 }));
    const client = TableClient.fromConnectionString(CONNECTION_STRING, table.tableName, OPTIONS);
    assert.equal((await client.getEntity("p", "r")).value, 7);
    const tables = TableServiceClient.fromConnectionString(CONNECTION_STRING, OPTIONS);
    const filter = odata`TableName eq ${table.tableName}`;
    assert.equal((await collect(tables.listTables({ queryOptions: { filter } }))).length, 1);
  }));

  it("a wrong key is refused", withTable(async (table) => {
    for (const credential of [
      new AzureNamedKeyCredential(ACCOUNT, WRONG_KEY),
      new AzureNamedKeyCredential("somebodyelse", KEY),
    ]) {
      const stranger = tableClient(table.tableName, credential);
      await refused(stranger.getEntity("p", "r"), 403, "AuthenticationFailed");
      await refused(stranger.createEntity(entity()), 403, "AuthenticationFailed");
      await refused(collect(stranger.listEntities()), 403, "AuthenticationFailed");
      await refused(new TableServiceClient(ENDPOINT, credential, OPTIONS).createTable(uniqueName()), 403, "AuthenticationFailed");
    }
    const friend = tableClient(table.tableName, CREDENTIAL);
    assert.deepEqual(await collect(friend.listEntities()), []);
  }));
});
