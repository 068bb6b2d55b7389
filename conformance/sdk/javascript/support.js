"use strict";
// What the tests share: how to reach the server, tables that clean up after themselves, refusals.

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const { AzureNamedKeyCredential, AzureSASCredential, TableClient, TableServiceClient } = require("@azure/data-tables");

const ENDPOINT = process.env.TEPUI_ENDPOINT;
const SECONDARY = `${ENDPOINT}-secondary`;
const ACCOUNT = "devstoreaccount1";
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const WRONG_KEY = Buffer.from("wrong key ".repeat(6)).toString("base64");
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

function uniqueName(prefix = "sdk") {
  return prefix + randomUUID().replaceAll("-", "").slice(0, 20);
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

async function collect(items) {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}

async function rowKeys(items) {
  return (await collect(items)).map((found) => found.rowKey);
}

function inMinutes(minutes) {
  return new Date(Date.now() + minutes * 60_000);
}

/** The code in the body of an error, JSON or XML. */
function codeOf(error) {
  const found = /"code":"(\w+)"|code>(\w+)</i.exec(error.response?.bodyAsText ?? "");
  return found?.[1] ?? found?.[2];
}

/** The promise fails with this status and code. Returns the error for more questions. */
async function refused(promise, statusCode, code) {
  try {
    await promise;
  } catch (error) {
    if (error.name !== "RestError") throw error;
    assert.deepEqual({ status: error.statusCode, code: codeOf(error) }, { status: statusCode, code });
    return error;
  }
  assert.fail(`not refused, but should be: ${statusCode} ${code}`);
}

module.exports = {
  ACCOUNT, CONNECTION_STRING, CREDENTIAL, ENDPOINT, KEY, OPTIONS, SECONDARY, STALE, WRONG_KEY,
  collect, entity, inMinutes, propertiesOf, refused, rowKeys, service, serviceWithSas,
  tableClient, tableWithSas, uniqueName, withTable,
};
