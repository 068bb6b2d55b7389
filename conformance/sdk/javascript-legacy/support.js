"use strict";
// What the tests share: promises around the callbacks of the client, tables that clean up, refusals.

const azure = require("azure-storage");
const { ACCOUNT, ENDPOINT, KEY, SECONDARY, WRONG_KEY, refusedBy, uniqueName } = require("../shared/server");

const HOST = { primaryHost: ENDPOINT, secondaryHost: SECONDARY };
const CONNECTION_STRING =
  `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};TableEndpoint=${ENDPOINT};`;

/** The client with every method returning a promise of its result. */
function promising(service) {
  return new Proxy(service, {
    get(target, name) {
      const method = target[name];
      if (typeof method !== "function" || name === "generateSharedAccessSignature") return method;
      return (...args) =>
        new Promise((resolve, reject) => {
          method.call(target, ...args, (error, result) => (error ? reject(error) : resolve(result)));
        });
    },
  });
}

const client = azure.createTableService(ACCOUNT, KEY, HOST);
const service = promising(client);
const stranger = promising(azure.createTableService(ACCOUNT, WRONG_KEY, HOST));
const fromConnectionString = () => promising(azure.createTableService(CONNECTION_STRING));
const withSas = (token) => promising(azure.createTableServiceWithSas(HOST, token));

/** A test body that is given the name of a new, empty table. */
function withTable(body) {
  return async () => {
    const name = uniqueName();
    await service.createTable(name);
    try {
      await body(name);
    } finally {
      await service.deleteTableIfExists(name);
    }
  };
}

function entity(row = "r", properties = {}, partition = "p") {
  return { PartitionKey: { _: partition }, RowKey: { _: row }, ...properties };
}

/** The values of an entity, without its keys and what the server adds. */
function valuesOf(stored) {
  const { PartitionKey, RowKey, Timestamp, [".metadata"]: metadata, ...rest } = stored;
  return Object.fromEntries(Object.entries(rest).map(([name, property]) => [name, property._]));
}

const etagOf = (stored) => stored[".metadata"].etag;

/** Every page of a query, as lists of row keys. */
async function pagesOf(table, query = null, from = service) {
  const pages = [];
  let token = null;
  do {
    const result = await from.queryEntities(table, query, token);
    pages.push(result.entries);
    token = result.continuationToken;
  } while (token);
  return pages;
}

async function rowKeys(table, query = null, from = service) {
  return (await pagesOf(table, query, from)).flat().map((found) => found.RowKey._);
}

const refused = refusedBy("StorageError");

module.exports = {
  client, entity, etagOf, fromConnectionString, pagesOf, refused, rowKeys, service, stranger,
  uniqueName, valuesOf, withSas, withTable,
};
