"use strict";

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const { AzureNamedKeyCredential, TableClient, generateAccountSas, generateTableSas } = require("@azure/data-tables");
const {
  ACCOUNT, CREDENTIAL, ENDPOINT, OPTIONS, WRONG_KEY,
  collect, entity, inMinutes, refused, rowKeys, serviceWithSas, tableClient, tableWithSas, uniqueName, withTable,
} = require("./support");

const TABLE_RIGHTS = { r: "query", a: "add", u: "update", d: "delete" };
const ACCOUNT_RIGHTS = { ...TABLE_RIGHTS, w: "write", l: "list" };

const rights = (names, letters) => Object.fromEntries([...letters].map((letter) => [names[letter], true]));

function tableSas(table, letters = "raud", options = {}, credential = CREDENTIAL) {
  const given = { permissions: rights(TABLE_RIGHTS, letters), expiresOn: inMinutes(10), ...options };
  return generateTableSas(table.tableName, credential, given);
}

function accountSas(letters, options = {}) {
  const given = { permissions: rights(ACCOUNT_RIGHTS, letters), expiresOn: inMinutes(10), resourceTypes: "sco", ...options };
  return generateAccountSas(CREDENTIAL, given);
}

const OPERATIONS = {
  query: ["r", (table) => collect(table.listEntities())],
  get: ["r", (table) => table.getEntity("p", "old")],
  insert: ["a", (table) => table.createEntity(entity("new"))],
  "upsert merge": ["au", (table) => table.upsertEntity(entity("new"), "Merge")],
  "upsert replace": ["au", (table) => table.upsertEntity(entity("new"), "Replace")],
  merge: ["u", (table) => table.updateEntity(entity("old"), "Merge")],
  replace: ["u", (table) => table.updateEntity(entity("old"), "Replace")],
  delete: ["d", (table) => table.deleteEntity("p", "old")],
  "batch insert": ["a", (table) => table.submitTransaction([["create", entity("new")]])],
};

describe("rights", () => {
  for (const [name, [needed, call]] of Object.entries(OPERATIONS)) {
    it(`${name} needs ${needed} of a table SAS`, withTable(async (table) => {
      await table.createEntity(entity("old"));
      for (const missing of needed) {
        const others = "raud".replace(missing, "");
        await refused(call(tableWithSas(table.tableName, tableSas(table, others))), 403, "AuthorizationPermissionMismatch");
      }
      assert.deepEqual(await rowKeys(table.listEntities()), ["old"]);
      await call(tableWithSas(table.tableName, tableSas(table, needed)));
    }));

    it(`${name} needs ${needed} of an account SAS`, withTable(async (table) => {
      await table.createEntity(entity("old"));
      await refused(call(tableWithSas(table.tableName, accountSas("wl"))), 403, "AuthorizationPermissionMismatch");
      await refused(
        call(tableWithSas(table.tableName, accountSas(needed, { resourceTypes: "sc" }))), 403, "AuthorizationResourceTypeMismatch");
      await call(tableWithSas(table.tableName, accountSas(needed, { resourceTypes: "o" })));
    }));
  }

  it("tables by account SAS", async () => {
    const name = uniqueName();
    await serviceWithSas(accountSas("w", { resourceTypes: "c" })).createTable(name);
    const tables = await collect(serviceWithSas(accountSas("l", { resourceTypes: "c" })).listTables());
    assert.ok(tables.some((table) => table.name === name));
    await refused(collect(serviceWithSas(accountSas("l", { resourceTypes: "o" })).listTables()), 403, "AuthorizationResourceTypeMismatch");
    await refused(serviceWithSas(accountSas("l", { resourceTypes: "c" })).deleteTable(name), 403, "AuthorizationPermissionMismatch");
    await serviceWithSas(accountSas("d", { resourceTypes: "c" })).deleteTable(name);
  });

  it("a table SAS reaches nothing but entities", withTable(async (table) => {
    const token = tableSas(table);
    await refused(collect(serviceWithSas(token).listTables()), 403, "AuthorizationFailure");
    await refused(serviceWithSas(token).createTable(uniqueName()), 403, "AuthorizationFailure");
    await refused(tableWithSas(table.tableName, token).deleteTable(), 403, "AuthorizationFailure");
    await refused(tableWithSas(table.tableName, token).getAccessPolicy(), 403, "AuthorizationFailure");
  }));

  it("a table SAS is for one table", withTable(async (table) => {
    await withTable(async (other) => {
      await refused(collect(tableWithSas(table.tableName, tableSas(other)).listEntities()), 403, "AuthorizationFailure");
    })();
  }));

  it("a SAS in the connection string", withTable(async (table) => {
    await table.createEntity(entity());
    const text = `TableEndpoint=${ENDPOINT};SharedAccessSignature=${accountSas("r")}`;
    const client = TableClient.fromConnectionString(text, table.tableName, OPTIONS);
    assert.deepEqual(await rowKeys(client.listEntities()), ["r"]);
  }));
});

describe("refused tokens", () => {
  const stranger = new AzureNamedKeyCredential(ACCOUNT, WRONG_KEY);
  const tokens = {
    expired: [(table) => tableSas(table, "r", { expiresOn: inMinutes(-1) }), "AuthenticationFailed"],
    "not yet valid": [(table) => tableSas(table, "r", { startsOn: inMinutes(5) }), "AuthenticationFailed"],
    "signed with another key": [(table) => tableSas(table, "r", {}, stranger), "AuthenticationFailed"],
    tampered: [(table) => tableSas(table, "r").replace("sp=r", "sp=raud"), "AuthenticationFailed"],
    "https only": [(table) => tableSas(table, "r", { protocol: "https" }), "AuthorizationProtocolMismatch"],
    "another address": [(table) => tableSas(table, "r", { ipRange: { start: "203.0.113.1" } }), "AuthorizationSourceIPMismatch"],
    "another service": [() => accountSas("r", { services: { blob: true } }), "AuthorizationServiceMismatch"],
    "unknown policy": [
      (table) => generateTableSas(table.tableName, CREDENTIAL, { identifier: "nobody" }), "AuthenticationFailed"],
  };
  for (const [name, [make, code]] of Object.entries(tokens)) {
    it(name, withTable((table) => refused(collect(tableWithSas(table.tableName, make(table)).listEntities()), 403, code)));
  }
});

describe("key ranges", () => {
  const all = ["p1", "p2", "p3"].flatMap((partition) => ["a", "b", "c"].map((row) => [partition, row]));
  const ranges = {
    "one partition": [{ startPartitionKey: "p2", endPartitionKey: "p2" }, all.slice(3, 6)],
    "from a partition on": [{ startPartitionKey: "p2" }, all.slice(3)],
    "up to a partition": [{ endPartitionKey: "p2" }, all.slice(0, 6)],
    "across partitions": [
      { startPartitionKey: "p1", startRowKey: "c", endPartitionKey: "p2", endRowKey: "a" }, all.slice(2, 4)],
  };
  for (const [name, [range, inside]] of Object.entries(ranges)) {
    it(name, withTable(async (table) => {
      for (const [partition, row] of all) await table.createEntity(entity(row, {}, partition));
      const client = tableWithSas(table.tableName, tableSas(table, "raud", range));
      const found = await collect(client.listEntities());
      assert.deepEqual(found.map(({ partitionKey, rowKey }) => [partitionKey, rowKey]), inside);
      for (const [partition, row] of all) {
        const reached = inside.some(([p, r]) => p === partition && r === row);
        const write = client.upsertEntity(entity(row, { a: 1 }, partition));
        await (reached ? write : refused(write, 403, "AuthorizationFailure"));
      }
    }));
  }
});

describe("access policies", () => {
  const start = new Date("2026-01-01T12:10:00Z");
  const expiry = new Date("2036-01-01T12:10:30Z");

  it("round trip", withTable(async (table) => {
    assert.deepEqual([...(await table.getAccessPolicy())], []);
    const policies = [
      { id: "full", accessPolicy: { start, expiry, permission: "raud" } },
      { id: "read", accessPolicy: { expiry, permission: "r" } },
    ];
    await table.setAccessPolicy(policies);
    assert.deepEqual([...(await table.getAccessPolicy())], policies);
    await table.setAccessPolicy([]);
    assert.deepEqual([...(await table.getAccessPolicy())], []);
  }));

  it("are at most five", withTable(async (table) => {
    const policies = Array.from({ length: 6 }, (_, number) => ({ id: `id${number}`, accessPolicy: { expiry, permission: "r" } }));
    await refused(table.setAccessPolicy(policies), 400, "InvalidXmlDocument");
    await table.setAccessPolicy(policies.slice(1));
    assert.equal((await table.getAccessPolicy()).length, 5);
  }));

  it("need a table", () => refused(tableClient(uniqueName()).getAccessPolicy(), 404, "TableNotFound"));

  it("give rights to a SAS and take them", withTable(async (table) => {
    await table.createEntity(entity());
    const client = tableWithSas(table.tableName, generateTableSas(table.tableName, CREDENTIAL, { identifier: "reader" }));
    await table.setAccessPolicy([{ id: "reader", accessPolicy: { expiry, permission: "r" } }]);
    assert.deepEqual(await rowKeys(client.listEntities()), ["r"]);
    await refused(client.createEntity(entity("new")), 403, "AuthorizationPermissionMismatch");
    await table.setAccessPolicy([{ id: "reader", accessPolicy: { expiry, permission: "a" } }]);
    await client.createEntity(entity("new"));
    await refused(collect(client.listEntities()), 403, "AuthorizationPermissionMismatch");
    await table.setAccessPolicy([]);
    await refused(client.createEntity(entity("newer")), 403, "AuthenticationFailed");
  }));
});
