"use strict";

// The clients of all three services with a token. Node.js trusts the certificate authority by NODE_EXTRA_CA_CERTS.

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const fs = require("node:fs");
const https = require("node:https");
const { TableServiceClient, TableClient } = require("@azure/data-tables");
const { QueueServiceClient } = require("@azure/storage-queue");
const { BlobServiceClient } = require("@azure/storage-blob");

const ACCOUNT = "devstoreaccount1";
const server = JSON.parse(fs.readFileSync(process.env.TEPUI_ENDPOINT, "utf8"));
const options = { retryOptions: { maxRetries: 0, maxTries: 1 } };

/** A credential that has one token, whoever asks for what. */
const fixed = (token) => ({ getToken: async () => ({ token, expiresOnTimestamp: Date.now() + 3600_000 }) });
const named = (token) => fixed(server.tokens[token]);

const services = {
  table: (credential) => new TableServiceClient(server.endpoints.table, credential, options),
  queue: (credential) => new QueueServiceClient(server.endpoints.queue, credential, options),
  blob: (credential) => new BlobServiceClient(server.endpoints.blob, credential, options),
};
const tableClient = (credential, name) => new TableClient(server.endpoints.table, name, credential, options);

/** A read and a write of a service. */
const requests = {
  table: (client) => [() => collect(client.listTables()), () => client.createTable(uniqueName())],
  queue: (client) => [() => collect(client.listQueues()), () => client.createQueue(uniqueName())],
  blob: (client) => [() => collect(client.listContainers()), () => client.createContainer(uniqueName())],
};

function uniqueName() {
  return "sdk" + randomUUID().replaceAll("-", "").slice(0, 20);
}

async function collect(pages) {
  const found = [];
  for await (const item of pages) found.push(item);
  return found;
}

async function refused(promise, status, code) {
  const error = await promise.then(() => assert.fail("not refused"), (error) => error);
  if (error instanceof assert.AssertionError) throw error;
  const said = error.code ?? error.details?.errorCode ?? error.details?.odataError?.code;
  assert.deepEqual([error.statusCode, said], [status, code], error.stack);
  return error;
}

/** A call of the admin API. */
function callAdmin(method, path, body) {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${server.admin.token}`, "content-type": "application/json" };
    const request = https.request(`${server.admin.url}/admin/v1${path}`, { method, headers }, (answer) => {
      let text = "";
      answer.on("data", (piece) => (text += piece));
      answer.on("end", () => {
        if (answer.statusCode >= 300) reject(new Error(`${method} ${path}: ${answer.statusCode} ${text}`));
        else resolve(text ? JSON.parse(text) : undefined);
      });
    });
    request.on("error", reject);
    request.end(body && JSON.stringify(body));
  });
}

module.exports = { ACCOUNT, callAdmin, collect, fixed, named, refused, requests, server, services, tableClient, uniqueName };
