"use strict";

const assert = require("node:assert/strict");
const { after, before, describe, it } = require("node:test");
const { collect, entity, refused, tableClient, uniqueName } = require("./support");

const typed = (type, value) => ({ type, value });

// What is sent, what a program sees, and what it sees when it asks for the types too.
const VALUES = {
  "int32 zero": [0, 0, typed("Int32", "0")],
  "int32 smallest": [-2147483648, -2147483648, typed("Int32", "-2147483648")],
  "int32 largest": [2147483647, 2147483647, typed("Int32", "2147483647")],
  "int64 smallest": [-(2n ** 63n), -(2n ** 63n), typed("Int64", "-9223372036854775808")],
  "int64 largest": [2n ** 63n - 1n, 2n ** 63n - 1n, typed("Int64", "9223372036854775807")],
  "int64 beyond a double": [2n ** 53n + 1n, 2n ** 53n + 1n, typed("Int64", "9007199254740993")],
  "int64 small": [typed("Int64", "5"), 5n, typed("Int64", "5")],
  true: [true, true, typed("Boolean", "true")],
  false: [false, false, typed("Boolean", "false")],
  "double half": [0.5, 0.5, typed("Double", "0.5")],
  "double huge": [1e308, 1e308, typed("Double", "1e+308")],
  "double tiny": [5e-324, 5e-324, typed("Double", "5e-324")],
  "double many digits": [0.1 + 0.2, 0.1 + 0.2, typed("Double", "0.30000000000000004")],
  "double NaN": [typed("Double", "NaN"), "NaN", typed("Double", "NaN")],
  "double Infinity": [typed("Double", "Infinity"), "Infinity", typed("Double", "Infinity")],
  "double -Infinity": [typed("Double", "-Infinity"), "-Infinity", typed("Double", "-Infinity")],
  guid: [
    typed("Guid", "0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9"),
    typed("Guid", "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"),
    typed("Guid", "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"),
  ],
  "binary empty": [Buffer.alloc(0), Buffer.alloc(0), typed("Binary", "")],
  "binary bytes": [Buffer.from([0, 251, 255, 254]), Buffer.from([0, 251, 255, 254]), typed("Binary", "APv//g==")],
  "string empty": ["", "", typed("String", "")],
  "string like a number": ["12", "12", typed("String", "12")],
  "string quotes and controls": ["it's \"\\ \t\n\u0001", "it's \"\\ \t\n\u0001", typed("String", "it's \"\\ \t\n\u0001")],
  "string other scripts": ["日本語 עברית", "日本語 עברית", typed("String", "日本語 עברית")],
  "string surrogate pairs": ["🦀𝄞", "🦀𝄞", typed("String", "🦀𝄞")],
  "datetime first": [new Date("1601-01-01T00:00:00Z"), new Date("1601-01-01T00:00:00Z"), typed("DateTime", "1601-01-01T00:00:00Z")],
  "datetime milliseconds": [
    new Date("2026-01-02T03:04:05.120Z"),
    new Date("2026-01-02T03:04:05.120Z"),
    typed("DateTime", "2026-01-02T03:04:05.12Z"),
  ],
  "datetime ticks": [
    typed("DateTime", "2026-01-02T03:04:05.1234567Z"),
    new Date("2026-01-02T03:04:05.123Z"),
    typed("DateTime", "2026-01-02T03:04:05.1234567Z"),
  ],
  "datetime last": [
    typed("DateTime", "9999-12-31T23:59:59.9999999Z"),
    new Date("9999-12-31T23:59:59.999Z"),
    typed("DateTime", "9999-12-31T23:59:59.9999999Z"),
  ],
};

describe("types", () => {
  const table = tableClient(uniqueName());
  before(() => table.createTable());
  after(() => table.deleteTable());

  for (const [name, [sent, seen, withType]] of Object.entries(VALUES)) {
    it(name, async () => {
      const rowKey = name.replaceAll(" ", "");
      await table.createEntity(entity(rowKey, { value: sent }));
      const { value } = await table.getEntity("p", rowKey);
      assert.deepEqual(value, seen);
      const exact = await table.getEntity("p", rowKey, { disableTypeConversion: true });
      assert.deepEqual(exact.value, withType);
    });
  }

  it("a whole number can be a double", async () => {
    await table.createEntity(entity("whole", { whole: typed("Double", 3), large: typed("Double", "1e20") }));
    // The client cannot tell 3.0 from 3, but a filter can.
    for (const filter of ["whole eq 3.0", "large eq 1e20"]) {
      const found = await collect(table.listEntities({ queryOptions: { filter } }));
      assert.deepEqual(found.map(({ rowKey, whole, large }) => [rowKey, whole, large]), [["whole", 3, 1e20]]);
    }
  });

  it("a large number without a type is a double", async () => {
    await table.createEntity(entity("large", { value: 2 ** 53 }));
    assert.equal((await table.getEntity("p", "large")).value, 2 ** 53);
  });

  it("a date before 1601 is refused", () =>
    refused(table.createEntity(entity("early", { value: new Date("1600-12-31T23:59:59Z") })), 400, "OutOfRangeInput"));

  for (const [type, value] of [["DateTime", "yesterday"], ["Guid", "x"], ["Int64", "1.5"], ["Int32", "2147483648"], ["Binary", "~"]]) {
    it(`${type} cannot be ${value}`, () =>
      refused(table.createEntity(entity("wrong", { value: typed(type, value) })), 400, "InvalidInput"));
  }
});
