package sdk

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func withToken(t *testing.T, table, token string) *aztables.Client {
	t.Helper()
	return must(aztables.NewClientWithNoCredential(endpoint+"/"+table+"?"+token, options))(t)
}

// tableToken signs a token for a table. Only one of the values is usually changed.
func tableToken(t *testing.T, values aztables.SASSignatureValues) string {
	t.Helper()
	if values.ExpiryTime.IsZero() && values.Identifier == "" {
		values.ExpiryTime = soon()
	}
	token := must(values.Sign(credential(t, account, key)))(t)
	// The client signs the key range, but leaves it out of the token.
	for name, value := range map[string]string{
		"spk": values.StartPartitionKey, "srk": values.StartRowKey, "epk": values.EndPartitionKey, "erk": values.EndRowKey,
	} {
		if value != "" {
			token += "&" + name + "=" + url.QueryEscape(value)
		}
	}
	return token
}

func accountToken(t *testing.T, permissions, resources string) string {
	t.Helper()
	values := aztables.AccountSASSignatureValues{
		Permissions: permissions, Services: "t", ResourceTypes: resources, ExpiryTime: soon(),
	}
	signed := must(values.Sign(credential(t, account, key)))(t)
	return signed.Encode()
}

var operations = map[string]struct {
	needed string
	call   func(*aztables.Client) error
}{
	"get":   {"r", func(c *aztables.Client) error { _, err := c.GetEntity(ctx, "p", "old", nil); return err }},
	"query": {"r", func(c *aztables.Client) error { _, err := pages(c, nil); return err }},
	"insert": {"a", func(c *aztables.Client) error {
		_, err := c.AddEntity(ctx, entity("p", "new", nil).bytes(), nil)
		return err
	}},
	"upsert": {"au", func(c *aztables.Client) error {
		_, err := c.UpsertEntity(ctx, entity("p", "new", nil).bytes(), nil)
		return err
	}},
	"merge": {"u", func(c *aztables.Client) error {
		_, err := c.UpdateEntity(ctx, entity("p", "old", nil).bytes(), nil)
		return err
	}},
	"delete": {"d", func(c *aztables.Client) error { _, err := c.DeleteEntity(ctx, "p", "old", nil); return err }},
}

func TestTableSASRights(t *testing.T) {
	for name, operation := range operations {
		t.Run(name, func(t *testing.T) {
			table, tableName := newTable(t)
			add(t, table, entity("p", "old", nil))
			for _, missing := range operation.needed {
				others := strings.ReplaceAll("raud", string(missing), "")
				token := tableToken(t, aztables.SASSignatureValues{TableName: tableName, Permissions: others})
				refused(t, operation.call(withToken(t, tableName, token)), 403, "AuthorizationPermissionMismatch")
			}
			token := tableToken(t, aztables.SASSignatureValues{TableName: tableName, Permissions: operation.needed})
			ok(t, operation.call(withToken(t, tableName, token)))
		})
	}
}

func TestAccountSASRights(t *testing.T) {
	for name, operation := range operations {
		t.Run(name, func(t *testing.T) {
			table, tableName := newTable(t)
			add(t, table, entity("p", "old", nil))
			refused(t, operation.call(withToken(t, tableName, accountToken(t, "wl", "o"))), 403, "AuthorizationPermissionMismatch")
			refused(t, operation.call(withToken(t, tableName, accountToken(t, "raud", "sc"))), 403, "AuthorizationResourceTypeMismatch")
			ok(t, operation.call(withToken(t, tableName, accountToken(t, operation.needed, "o"))))
		})
	}
}

func TestAccountSASForTables(t *testing.T) {
	tables := func(permissions, resources string) *aztables.ServiceClient {
		return must(aztables.NewServiceClientWithNoCredential(endpoint+"/?"+accountToken(t, permissions, resources), options))(t)
	}
	name := uniqueName()
	list := func(client *aztables.ServiceClient) ([]*aztables.TableProperties, error) {
		filter := "TableName eq '" + name + "'"
		page, err := client.NewListTablesPager(&aztables.ListTablesOptions{Filter: &filter}).NextPage(ctx)
		return page.Tables, err
	}
	_, err := tables("l", "c").CreateTable(ctx, name, nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
	must(tables("c", "c").CreateTable(ctx, name, nil))(t)
	equal(t, *must(list(tables("l", "c")))(t)[0].Name, name)
	_, err = list(tables("l", "o"))
	refused(t, err, 403, "AuthorizationResourceTypeMismatch")
	must(tables("d", "c").DeleteTable(ctx, name, nil))(t)
}

// The URL that the client makes itself is for https only.
func TestAccountSASURL(t *testing.T) {
	address := must(service(t).GetAccountSASURL(
		aztables.AccountSASResourceTypes{Container: true}, aztables.AccountSASPermissions{List: true}, time.Time{}, soon(),
	))(t)
	_, err := must(aztables.NewServiceClientWithNoCredential(address, options))(t).NewListTablesPager(nil).NextPage(ctx)
	refused(t, err, 403, "AuthorizationProtocolMismatch")
}

func TestRefusedTokens(t *testing.T) {
	_, name := newTable(t)
	_, other := newTable(t)
	for title, each := range map[string]struct {
		values aztables.SASSignatureValues
		code   string
	}{
		"expired":        {aztables.SASSignatureValues{TableName: name, Permissions: "r", ExpiryTime: time.Now().UTC().Add(-time.Minute)}, "AuthenticationFailed"},
		"not yet valid":  {aztables.SASSignatureValues{TableName: name, Permissions: "r", StartTime: time.Now().UTC().Add(5 * time.Minute)}, "AuthenticationFailed"},
		"unknown policy": {aztables.SASSignatureValues{TableName: name, Identifier: "nobody"}, "AuthenticationFailed"},
		"https only":     {aztables.SASSignatureValues{TableName: name, Permissions: "r", Protocol: aztables.SASProtocolHTTPS}, "AuthorizationProtocolMismatch"},
		"another table":  {aztables.SASSignatureValues{TableName: other, Permissions: "r"}, "AuthorizationFailure"},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := pages(withToken(t, name, tableToken(t, each.values)), nil)
			refused(t, err, 403, each.code)
		})
	}
}

func TestKeyRange(t *testing.T) {
	table, name := newTable(t)
	for _, partition := range []string{"p1", "p2", "p3"} {
		add(t, table, entity(partition, "a", nil), entity(partition, "b", nil))
	}
	client := withToken(t, name, tableToken(t, aztables.SASSignatureValues{
		TableName: name, Permissions: "raud", StartPartitionKey: "p1", StartRowKey: "b", EndPartitionKey: "p2", EndRowKey: "a",
	}))
	equal(t, keys(t, client, nil), []string{"p1/b", "p2/a"})
	must(client.UpsertEntity(ctx, entity("p2", "a", object{"A": 1}).bytes(), nil))(t)
	_, err := client.UpsertEntity(ctx, entity("p2", "b", object{"A": 1}).bytes(), nil)
	refused(t, err, 403, "AuthorizationFailure")
	_, err = client.DeleteEntity(ctx, "p1", "a", nil)
	refused(t, err, 403, "AuthorizationFailure")
	equal(t, len(keys(t, table, nil)), 6)
}

func TestAccessPolicies(t *testing.T) {
	table, name := newTable(t)
	add(t, table, entity("p", "r", nil))
	start, expiry := time.Date(2026, 1, 1, 12, 10, 0, 0, time.UTC), time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)
	equal(t, len(must(table.GetAccessPolicy(ctx, nil))(t).SignedIdentifiers), 0)
	must(table.SetAccessPolicy(ctx, &aztables.SetAccessPolicyOptions{TableACL: []*aztables.SignedIdentifier{
		{ID: pointer("reader"), AccessPolicy: &aztables.AccessPolicy{Start: &start, Expiry: &expiry, Permission: pointer("r")}},
	}}))(t)
	stored := must(table.GetAccessPolicy(ctx, nil))(t).SignedIdentifiers
	equal(t, len(stored), 1)
	equal(t, *stored[0].ID, "reader")
	equal(t, stored[0].AccessPolicy.Start.UTC(), start)
	equal(t, stored[0].AccessPolicy.Expiry.UTC(), expiry)
	equal(t, *stored[0].AccessPolicy.Permission, "r")

	reader := withToken(t, name, tableToken(t, aztables.SASSignatureValues{TableName: name, Identifier: "reader"}))
	equal(t, keys(t, reader, nil), []string{"p/r"})
	_, err := reader.AddEntity(ctx, entity("p", "new", nil).bytes(), nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
	must(table.SetAccessPolicy(ctx, nil))(t)
	_, err = pages(reader, nil)
	refused(t, err, 403, "AuthenticationFailed")
}

func TestAtMostFivePolicies(t *testing.T) {
	table, _ := newTable(t)
	var six []*aztables.SignedIdentifier
	for _, id := range strings.Split("abcdef", "") {
		six = append(six, &aztables.SignedIdentifier{ID: &id, AccessPolicy: &aztables.AccessPolicy{Expiry: pointer(soon()), Permission: pointer("r")}})
	}
	if _, err := table.SetAccessPolicy(ctx, &aztables.SetAccessPolicyOptions{TableACL: six}); err == nil {
		t.Fatal("not refused")
	}
	equal(t, len(must(table.GetAccessPolicy(ctx, nil))(t).SignedIdentifiers), 0)
}
