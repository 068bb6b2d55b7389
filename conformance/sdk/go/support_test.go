// Package sdk tests a server with the Go client for tables.
package sdk

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

var (
	options = &aztables.ClientOptions{ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}}
	stale   = azcore.ETag("W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\"")
	anyETag = azcore.ETagAny
)

// object is an entity as its JSON members.
type object map[string]any

func entity(partition, row string, properties object) object {
	all := object{"PartitionKey": partition, "RowKey": row}
	for name, value := range properties {
		all[name] = value
	}
	return all
}

func (o object) bytes() []byte {
	encoded, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return encoded
}

// properties are the members that were not added by the server.
func properties(t *testing.T, encoded []byte) object {
	t.Helper()
	var all object
	ok(t, json.Unmarshal(encoded, &all))
	for name := range all {
		if strings.HasPrefix(name, "odata.") || name == "PartitionKey" || name == "RowKey" || name == "Timestamp" {
			delete(all, name)
		}
	}
	return all
}

func credential(t *testing.T, name, secret string) *aztables.SharedKeyCredential {
	t.Helper()
	return must(aztables.NewSharedKeyCredential(name, secret))(t)
}

func serviceAt(t *testing.T, url string) *aztables.ServiceClient {
	t.Helper()
	return must(aztables.NewServiceClientWithSharedKey(url, credential(t, account, key), options))(t)
}

func service(t *testing.T) *aztables.ServiceClient {
	t.Helper()
	return serviceAt(t, endpoint)
}

// newTable makes a table for one test.
func newTable(t *testing.T) (*aztables.Client, string) {
	t.Helper()
	name := uniqueName()
	tables := service(t)
	must(tables.CreateTable(ctx, name, nil))(t)
	t.Cleanup(func() { _, _ = tables.DeleteTable(ctx, name, nil) })
	return tables.NewClient(name), name
}

func add(t *testing.T, table *aztables.Client, entities ...object) {
	t.Helper()
	for _, each := range entities {
		must(table.AddEntity(ctx, each.bytes(), nil))(t)
	}
}

// pages reads every page of a query.
func pages(table *aztables.Client, query *aztables.ListEntitiesOptions) ([][][]byte, error) {
	var all [][][]byte
	for pager := table.NewListEntitiesPager(query); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Entities)
	}
	return all, nil
}

// keys are "partition/row" for every entity that a query finds.
func keys(t *testing.T, table *aztables.Client, query *aztables.ListEntitiesOptions) []string {
	t.Helper()
	found := []string{}
	for _, page := range must(pages(table, query))(t) {
		for _, encoded := range page {
			var each aztables.Entity
			ok(t, json.Unmarshal(encoded, &each))
			found = append(found, each.PartitionKey+"/"+each.RowKey)
		}
	}
	return found
}

func get(t *testing.T, table *aztables.Client, partition, row string) object {
	t.Helper()
	return properties(t, must(table.GetEntity(ctx, partition, row, nil))(t).Value)
}

var partOfBatch = regexp.MustCompile(`(?s)HTTP/1\.1 (\d+).*"code":"(\w+)".*"value":"(\d+):`)

// batchRefused fails the test unless the batch was answered with this status, code and index.
func batchRefused(t *testing.T, err error, status, code, index string) {
	t.Helper()
	if err == nil {
		t.Fatalf("not refused, but should be: %s %s", status, code)
	}
	// The error of the client is that of the envelope; what went wrong is only in its text.
	found := partOfBatch.FindStringSubmatch(err.Error())
	if found == nil {
		t.Fatalf("not refused with %s %s at %s, but: %v", status, code, index, err)
	}
	equal(t, found[1:], []string{status, code, index})
}
