"use strict";
// What the tests share: clients, tables that clean up after themselves, refusals.

const { AzureNamedKeyCredential, AzureSASCredential, TableClient, TableServiceClient } = require("@azure/data-tables");
const {
  ACCOUNT, ENDPOINT, KEY, SECONDARY, WRONG_KEY, collect, inMinutes, refusedBy, uniqueName,
} = require("../shared/server");

const CREDENTIAL = new AzureNamedKeyCredential(ACCOUNT, KEY);
const CONNECTION_STRING =
  `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};TableEndpoint=${ENDPOINT};`;
const OPTIONS = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
const STALE = "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\"";

const service = new TableServiceClient(ENDPOINT, CREDENTIAL, OPTIONS);

function tableClient(name, credential = CREDENTIAL, options = {}) {
  return new TableClient(ENDPOINT, name, credential, { ...OPTIONS, ...options });
}

function tableWithSas(name, token) {
  return tableClient(name, new AzureSASCredential(token));
}

function serviceWithSas(token) {
  return new TableServiceClient(ENDPOINT, new AzureSASCredential(token), OPTIONS);
}

/** A test body that is given a new, empty table. */
function withTable(body) {
  return async () => {
    const table = tableClient(uniqueName());
    await table.createTable();
    try {
      await body(table);
    } finally {
      await table.deleteTable();
    }
  };
}

function entity(rowKey = "r", properties = {}, partitionKey = "p") {
  return { partitionKey, rowKey, ...properties };
}

/** The entity without its keys and what the server adds. */
function propertiesOf(stored) {
  const { partitionKey, rowKey, etag, timestamp, ...rest } = stored;
  delete rest["odata.metadata"];
  return rest;
}

async function rowKeys(items) {
  return (await collect(items)).map((found) => found.rowKey);
}

/** The code in the body of an error, JSON or XML. */
function codeOf(error) {
  const found = /"code":"(\w+)"|code>(\w+)</i.exec(error.response?.bodyAsText ?? "");
  return found?.[1] ?? found?.[2];
}

const refused = refusedBy("RestError", codeOf);

module.exports = {
  ACCOUNT, CONNECTION_STRING, CREDENTIAL, ENDPOINT, KEY, OPTIONS, SECONDARY, STALE, WRONG_KEY,
  collect, entity, inMinutes, propertiesOf, refused, rowKeys, service, serviceWithSas,
  tableClient, tableWithSas, uniqueName, withTable,
};
