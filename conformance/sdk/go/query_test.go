package sdk

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func TestFilters(t *testing.T) {
	table, _ := newTable(t)
	add(t, table,
		entity("p", "a", object{"Int": 1, "Text": "it's", "Flag": true, "Real": 1.5}),
		entity("p", "b", object{"Int": 2, "Text": "日本", "Flag": false, "Long": "9007199254740993", "Long@odata.type": "Edm.Int64"}),
		entity("q", "c", object{"When": "2026-03-10T12:00:00.5000001Z", "When@odata.type": "Edm.DateTime"}),
		entity("q", "d", object{"Id": "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", "Id@odata.type": "Edm.Guid", "Data": "AQL/", "Data@odata.type": "Edm.Binary"}),
	)
	for filter, want := range map[string]string{
		"":                                "abcd",
		"PartitionKey eq 'p'":             "ab",
		"PartitionKey gt 'p'":             "cd",
		"RowKey ge 'b' and RowKey lt 'd'": "bc",
		"Int eq 1 or RowKey eq 'd'":       "ad",
		"not (PartitionKey eq 'p')":       "cd",
		"not (Int ge 0)":                  "cd",
		"Int ne 1":                        "b",
		"Text eq 'it''s'":                 "a",
		"Text eq '日本'":                    "b",
		"Flag eq true":                    "a",
		"Real gt 1.25":                    "a",
		"Long eq 9007199254740993L":       "b",
		"When gt datetime'2026-03-10T12:00:00.5Z'":         "c",
		"When eq datetime'2026-03-10T12:00:00.5000001Z'":   "c",
		"Id eq guid'0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9'": "d",
		"Data eq X'0102ff'":                                "d",
		"2 gt Int":                                         "a",
	} {
		t.Run(filter, func(t *testing.T) {
			found := keys(t, table, &aztables.ListEntitiesOptions{Filter: &filter})
			rows := ""
			for _, each := range found {
				rows += strings.Split(each, "/")[1]
			}
			equal(t, rows, want)
		})
	}
	for filter, answer := range map[string]struct {
		status int
		code   string
	}{
		"aaa bbb ccc":          {400, "InvalidInput"},
		"Text eq null":         {400, "InvalidInput"},
		"startswith(Text,'a')": {501, "NotImplemented"},
	} {
		t.Run(filter, func(t *testing.T) {
			_, err := pages(table, &aztables.ListEntitiesOptions{Filter: &filter})
			refused(t, err, answer.status, answer.code)
		})
	}
}

func TestSelect(t *testing.T) {
	table, _ := newTable(t)
	add(t, table, entity("p", "r", object{"A": 1, "B": 2}))
	page := must(pages(table, &aztables.ListEntitiesOptions{Select: pointer("RowKey,A,Missing")}))(t)[0]
	var found object
	ok(t, json.Unmarshal(page[0], &found))
	if found["odata.etag"] == nil {
		t.Error("the ETag is missing")
	}
	delete(found, "odata.etag")
	equal(t, found, object{"RowKey": "r", "A": 1.0, "Missing": nil})
}

func TestPages(t *testing.T) {
	table, _ := newTable(t)
	var all []string
	for _, partition := range []string{"p 1", "p%2", "p+3", "pé4", "日5"} {
		for start := 0; start < 500; start += 100 {
			var actions []aztables.TransactionAction
			for number := start; number < start+100; number++ {
				row := fmt.Sprintf("r%03d", number)
				all = append(all, partition+"/"+row)
				actions = append(actions, aztables.TransactionAction{
					ActionType: aztables.TransactionTypeAdd,
					Entity:     entity(partition, row, nil).bytes(),
				})
			}
			must(table.SubmitTransaction(ctx, actions, nil))(t)
		}
	}
	for name, each := range map[string]struct {
		top   *int32
		sizes []int
	}{
		"usual": {nil, []int{1000, 1000, 500}},
		"500":   {pointer(int32(500)), []int{500, 500, 500, 500, 500}},
		"999":   {pointer(int32(999)), []int{999, 999, 502}},
	} {
		t.Run(name, func(t *testing.T) {
			query := &aztables.ListEntitiesOptions{Top: each.top}
			var sizes []int
			for _, page := range must(pages(table, query))(t) {
				sizes = append(sizes, len(page))
			}
			equal(t, sizes, each.sizes)
			if !slices.Equal(keys(t, table, query), all) {
				t.Error("the entities are not all there or not in order")
			}
		})
	}
	t.Run("resumed", func(t *testing.T) {
		first := must(table.NewListEntitiesPager(nil).NextPage(ctx))(t)
		rest := keys(t, table, &aztables.ListEntitiesOptions{NextPartitionKey: first.NextPartitionKey, NextRowKey: first.NextRowKey})
		equal(t, rest, all[1000:])
	})
	t.Run("too large", func(t *testing.T) {
		_, err := pages(table, &aztables.ListEntitiesOptions{Top: pointer(int32(1001))})
		refused(t, err, 400, "InvalidInput")
	})
}
