package sdk

import (
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// tableNames lists tables, page by page.
func tableNames(t *testing.T, query aztables.ListTablesOptions) [][]string {
	t.Helper()
	var all [][]string
	for pager := service(t).NewListTablesPager(&query); pager.More(); {
		page := must(pager.NextPage(ctx))(t)
		names := []string{}
		for _, table := range page.Tables {
			names = append(names, *table.Name)
		}
		all = append(all, names)
	}
	return all
}

func TestTableLife(t *testing.T) {
	tables, name := service(t), uniqueName()
	only := aztables.ListTablesOptions{Filter: pointer(fmt.Sprintf("TableName eq '%s'", name))}
	equal(t, tableNames(t, only), [][]string{{}})
	must(tables.CreateTable(ctx, name, nil))(t)
	equal(t, tableNames(t, only), [][]string{{name}})

	_, err := tables.CreateTable(ctx, name, nil)
	refused(t, err, 409, "TableAlreadyExists")
	_, err = tables.CreateTable(ctx, strings.ToUpper(name), nil)
	refused(t, err, 409, "TableAlreadyExists")

	must(tables.DeleteTable(ctx, name, nil))(t)
	equal(t, tableNames(t, only), [][]string{{}})
	_, err = tables.DeleteTable(ctx, name, nil)
	refused(t, err, 404, "ResourceNotFound")
}

func TestTableClientLife(t *testing.T) {
	table := service(t).NewClient(uniqueName())
	must(table.CreateTable(ctx, nil))(t)
	add(t, table, entity("p", "r", nil))
	must(table.Delete(ctx, nil))(t)
	_, err := table.GetEntity(ctx, "p", "r", nil)
	refused(t, err, 404, "TableNotFound")
}

func TestTableNames(t *testing.T) {
	for name, code := range map[string]string{
		"my_table":              "InvalidResourceName",
		"1table":                "InvalidResourceName",
		"ab":                    "OutOfRangeInput",
		strings.Repeat("a", 64): "OutOfRangeInput",
		"tables":                "InvalidInput",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := service(t).CreateTable(ctx, name, nil)
			refused(t, err, 400, code)
		})
	}
}

func TestTablePages(t *testing.T) {
	tables, prefix := service(t), uniqueName()
	var names []string
	for _, letter := range "abcde" {
		name := prefix + string(letter)
		names = append(names, name)
		must(tables.CreateTable(ctx, name, nil))(t)
		t.Cleanup(func() { _, _ = tables.DeleteTable(ctx, name, nil) })
	}
	query := aztables.ListTablesOptions{
		Filter: pointer(fmt.Sprintf("TableName ge '%s' and TableName lt '%s{'", prefix, prefix)),
		Top:    pointer(int32(2)),
	}
	equal(t, tableNames(t, query), [][]string{names[:2], names[2:4], names[4:]})

	first := must(tables.NewListTablesPager(&query).NextPage(ctx))(t)
	query.NextTableName = first.NextTableName
	equal(t, tableNames(t, query), [][]string{names[2:4], names[4:]})
}

func TestConnectionString(t *testing.T) {
	table, name := newTable(t)
	add(t, table, entity("p", "r", object{"Value": 7.0}))
	text := fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;TableEndpoint=%s;", account, key, endpoint)
	tables := must(aztables.NewServiceClientFromConnectionString(text, options))(t)
	equal(t, get(t, tables.NewClient(name), "p", "r"), object{"Value": 7.0})
}

func TestWrongKey(t *testing.T) {
	table, name := newTable(t)
	for who, secret := range map[string]string{account: wrongKey, "somebodyelse": key} {
		stranger := must(aztables.NewClientWithSharedKey(endpoint+"/"+name, credential(t, who, secret), options))(t)
		_, err := stranger.GetEntity(ctx, "p", "r", nil)
		refused(t, err, 403, "AuthenticationFailed")
		_, err = stranger.AddEntity(ctx, entity("p", "r", nil).bytes(), nil)
		refused(t, err, 403, "AuthenticationFailed")
		_, err = stranger.SubmitTransaction(ctx, []aztables.TransactionAction{
			{ActionType: aztables.TransactionTypeAdd, Entity: entity("p", "r", nil).bytes()},
		}, nil)
		refused(t, err, 403, "AuthenticationFailed")
	}
	equal(t, keys(t, table, nil), []string{})
}
