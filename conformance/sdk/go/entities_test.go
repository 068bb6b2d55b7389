package sdk

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func TestInsert(t *testing.T) {
	table, _ := newTable(t)
	answer := must(table.AddEntity(ctx, entity("p", "r", object{"A": 1.0}).bytes(), nil))(t)
	stored := must(table.GetEntity(ctx, "p", "r", nil))(t)
	equal(t, stored.ETag, answer.ETag)
	equal(t, properties(t, stored.Value), object{"A": 1.0})
	equal(t, properties(t, answer.Value), object{"A": 1.0})

	_, err := table.AddEntity(ctx, entity("p", "r", nil).bytes(), nil)
	refused(t, err, 409, "EntityAlreadyExists")
	_, err = table.GetEntity(ctx, "p", "gone", nil)
	refused(t, err, 404, "ResourceNotFound")
	_, err = service(t).NewClient(uniqueName()).GetEntity(ctx, "p", "r", nil)
	refused(t, err, 404, "TableNotFound")
}

func TestWritesOverAnEntity(t *testing.T) {
	merged := object{"A": 1.0, "B": 3.0, "C": 4.0}
	replaced := object{"B": 3.0, "C": 4.0}
	for _, each := range []struct {
		mode aztables.UpdateMode
		want object
	}{{aztables.UpdateModeMerge, merged}, {aztables.UpdateModeReplace, replaced}} {
		body := entity("p", "r", object{"B": 3.0, "C": 4.0}).bytes()
		t.Run("upsert "+string(each.mode), func(t *testing.T) {
			table, _ := newTable(t)
			add(t, table, entity("p", "r", object{"A": 1.0, "B": 2.0}))
			answer := must(table.UpsertEntity(ctx, body, &aztables.UpsertEntityOptions{UpdateMode: each.mode}))(t)
			stored := must(table.GetEntity(ctx, "p", "r", nil))(t)
			equal(t, properties(t, stored.Value), each.want)
			equal(t, stored.ETag, answer.ETag)
		})
		t.Run("upsert of a missing entity "+string(each.mode), func(t *testing.T) {
			table, _ := newTable(t)
			must(table.UpsertEntity(ctx, body, &aztables.UpsertEntityOptions{UpdateMode: each.mode}))(t)
			equal(t, get(t, table, "p", "r"), replaced)
		})
		t.Run("update "+string(each.mode), func(t *testing.T) {
			table, _ := newTable(t)
			_, err := table.UpdateEntity(ctx, body, &aztables.UpdateEntityOptions{UpdateMode: each.mode})
			refused(t, err, 404, "ResourceNotFound")
			_, err = table.UpdateEntity(ctx, body, &aztables.UpdateEntityOptions{UpdateMode: each.mode, IfMatch: &stale})
			refused(t, err, 404, "ResourceNotFound")

			first := must(table.AddEntity(ctx, entity("p", "r", object{"A": 1.0, "B": 2.0}).bytes(), nil))(t).ETag
			must(table.UpdateEntity(ctx, body, &aztables.UpdateEntityOptions{UpdateMode: each.mode, IfMatch: &first}))(t)
			equal(t, get(t, table, "p", "r"), each.want)
			_, err = table.UpdateEntity(ctx, body, &aztables.UpdateEntityOptions{UpdateMode: each.mode, IfMatch: &first})
			refused(t, err, 412, "UpdateConditionNotSatisfied")
			must(table.UpdateEntity(ctx, body, &aztables.UpdateEntityOptions{UpdateMode: each.mode, IfMatch: &anyETag}))(t)
		})
	}
}

func TestDelete(t *testing.T) {
	table, _ := newTable(t)
	first := must(table.AddEntity(ctx, entity("p", "r", nil).bytes(), nil))(t).ETag
	second := must(table.UpsertEntity(ctx, entity("p", "r", nil).bytes(), nil))(t).ETag
	_, err := table.DeleteEntity(ctx, "p", "r", &aztables.DeleteEntityOptions{IfMatch: &first})
	refused(t, err, 412, "UpdateConditionNotSatisfied")
	must(table.DeleteEntity(ctx, "p", "r", &aztables.DeleteEntityOptions{IfMatch: &second}))(t)
	_, err = table.DeleteEntity(ctx, "p", "r", nil)
	refused(t, err, 404, "ResourceNotFound")
}

func TestETagOfAListedEntity(t *testing.T) {
	table, _ := newTable(t)
	add(t, table, entity("p", "r", object{"A": 1.0}))
	var listed aztables.EDMEntity
	ok(t, json.Unmarshal(must(pages(table, nil))(t)[0][0], &listed))
	etag := azcore.ETag(listed.ETag)
	must(table.UpdateEntity(ctx, entity("p", "r", nil).bytes(), &aztables.UpdateEntityOptions{IfMatch: &etag, UpdateMode: aztables.UpdateModeMerge}))(t)
	stamp := time.Time(listed.Timestamp).Format("2006-01-02T15:04:05.9999999Z")
	equal(t, listed.ETag, "W/\"datetime'"+strings.ReplaceAll(stamp, ":", "%3A")+"'\"")
}

func TestKeys(t *testing.T) {
	for name, key := range map[string]string{
		"space": "a b", "quote": "it's", "quotes": "''", "double quote": `say "x"`, "percent": "100%",
		"escape": "a%20b%2Fc", "plus": "a+b", "punctuation": "a,b=c(d)e;f:g@h&i$j!k*l~m|n^o`p[q]r{s}t<u>v",
		"accents": "grüße ñ", "scripts": "日本語 Ελλάδα", "pairs": "🦀𝄞",
	} {
		t.Run(name, func(t *testing.T) {
			table, _ := newTable(t)
			add(t, table, entity(key, key, object{"A": 1.0}))
			must(table.UpdateEntity(ctx, entity(key, key, object{"B": 2.0}).bytes(), &aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeMerge}))(t)
			equal(t, get(t, table, key, key), object{"A": 1.0, "B": 2.0})
			quoted := "'" + strings.ReplaceAll(key, "'", "''") + "'"
			query := &aztables.ListEntitiesOptions{Filter: pointer("PartitionKey eq " + quoted + " and RowKey eq " + quoted)}
			equal(t, keys(t, table, query), []string{key + "/" + key})
			must(table.DeleteEntity(ctx, key, key, nil))(t)
			equal(t, keys(t, table, nil), []string{})
		})
	}
	for _, character := range []string{"/", "\\", "#", "?", "\t", "\u007f"} {
		t.Run("forbidden "+character, func(t *testing.T) {
			table, _ := newTable(t)
			_, err := table.AddEntity(ctx, entity("p", "a"+character+"b", nil).bytes(), nil)
			refused(t, err, 400, "OutOfRangeInput")
		})
	}
}

// The client addresses no entity with an empty key, but it can insert and find one.
func TestEmptyKeys(t *testing.T) {
	table, _ := newTable(t)
	add(t, table, entity("", "", nil), entity("", "r", nil), entity("p", "", nil))
	equal(t, keys(t, table, nil), []string{"/", "/r", "p/"})
	equal(t, keys(t, table, &aztables.ListEntitiesOptions{Filter: pointer("PartitionKey eq '' and RowKey eq ''")}), []string{"/"})
	equal(t, keys(t, table, &aztables.ListEntitiesOptions{Top: pointer(int32(1))}), []string{"/", "/r", "p/"})
}

func TestLimits(t *testing.T) {
	many := func(count int, value any) object {
		all := object{}
		for number := range count {
			all["P"+string(rune('a'+number%26))+string(rune('a'+number/26))] = value
		}
		return all
	}
	for name, each := range map[string]struct {
		properties object
		code       string
	}{
		"string that fits":      {object{"A": strings.Repeat("x", 32768)}, ""},
		"string too long":       {object{"A": strings.Repeat("x", 32769)}, "PropertyValueTooLarge"},
		"252 properties":        {many(252, 1.0), ""},
		"253 properties":        {many(253, 1.0), "TooManyProperties"},
		"name that fits":        {object{strings.Repeat("n", 255): 1.0}, ""},
		"name too long":         {object{strings.Repeat("n", 256): 1.0}, "PropertyNameTooLong"},
		"entity of over 1 MiB":  {many(16, strings.Repeat("x", 32768)), "EntityTooLarge"},
		"entity of under 1 MiB": {many(16, strings.Repeat("x", 32000)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			table, _ := newTable(t)
			_, err := table.AddEntity(ctx, entity("p", "r", each.properties).bytes(), nil)
			if each.code != "" {
				refused(t, err, 400, each.code)
				equal(t, keys(t, table, nil), []string{})
				return
			}
			ok(t, err)
			equal(t, get(t, table, "p", "r"), each.properties)
		})
	}
}

func TestMetadataFormats(t *testing.T) {
	table, name := newTable(t)
	add(t, table, entity("p", "r", object{"A": "5", "A@odata.type": "Edm.Int64"}))
	for format, members := range map[aztables.MetadataFormat][]string{
		aztables.MetadataFormatNone:    {},
		aztables.MetadataFormatMinimal: {"odata.etag", "A@odata.type"},
		aztables.MetadataFormatFull:    {"odata.etag", "A@odata.type", "odata.id", "odata.type", "odata.editLink", "Timestamp@odata.type"},
	} {
		t.Run(string(format), func(t *testing.T) {
			stored := must(table.GetEntity(ctx, "p", "r", &aztables.GetEntityOptions{Format: &format}))(t).Value
			listed := must(pages(table, &aztables.ListEntitiesOptions{Format: &format}))(t)[0][0]
			for _, encoded := range [][]byte{stored, listed} {
				var all object
				ok(t, json.Unmarshal(encoded, &all))
				delete(all, "odata.metadata")
				equal(t, len(all), 4+len(members))
				for _, member := range members {
					if all[member] == nil {
						t.Errorf("%s is missing in %s", member, encoded)
					}
				}
				if format == aztables.MetadataFormatFull {
					equal(t, all["odata.editLink"], name+"(PartitionKey='p',RowKey='r')")
				}
			}
		})
	}
}

func TestTypes(t *testing.T) {
	tick := time.Date(2026, 1, 2, 3, 4, 5, 123456700, time.UTC)
	for name, value := range map[string]any{
		"int32 smallest":   int32(math.MinInt32),
		"int32 largest":    int32(math.MaxInt32),
		"int64 smallest":   aztables.EDMInt64(math.MinInt64),
		"int64 largest":    aztables.EDMInt64(math.MaxInt64),
		"int64 small":      aztables.EDMInt64(1),
		"double":           0.5,
		"double huge":      1e308,
		"double largest":   math.MaxFloat64,
		"double tiny":      5e-324,
		"true":             true,
		"false":            false,
		"guid":             aztables.EDMGUID("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"),
		"binary":           aztables.EDMBinary{0, 251, 255, 254},
		"binary empty":     aztables.EDMBinary{},
		"string empty":     "",
		"string odd":       "it's \"\\ \t\n\u0001 <&>",
		"string scripts":   "日本語 עברית 🦀",
		"string digits":    "12",
		"datetime tick":    aztables.EDMDateTime(tick),
		"datetime first":   aztables.EDMDateTime(time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC)),
		"datetime last":    aztables.EDMDateTime(time.Date(9999, 12, 31, 23, 59, 59, 999999900, time.UTC)),
		"datetime seconds": aztables.EDMDateTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
	} {
		t.Run(name, func(t *testing.T) {
			table, _ := newTable(t)
			sent := aztables.EDMEntity{Entity: aztables.Entity{PartitionKey: "p", RowKey: "r"}, Properties: map[string]any{"Value": value}}
			must(table.AddEntity(ctx, must(json.Marshal(sent))(t), nil))(t)
			var stored aztables.EDMEntity
			ok(t, json.Unmarshal(must(table.GetEntity(ctx, "p", "r", nil))(t).Value, &stored))
			equal(t, stored.Properties, sent.Properties)
		})
	}
}

func TestDoublesWithoutGoType(t *testing.T) {
	table, _ := newTable(t)
	for _, text := range []string{"NaN", "Infinity", "-Infinity"} {
		add(t, table, entity("p", text, object{"A": text, "A@odata.type": "Edm.Double"}))
		equal(t, get(t, table, "p", text), object{"A": text, "A@odata.type": "Edm.Double"})
	}
	add(t, table, entity("p", "whole", object{"B": "3", "B@odata.type": "Edm.Double"}), entity("p", "integer", object{"B": 3}))
	equal(t, keys(t, table, &aztables.ListEntitiesOptions{Filter: pointer("B eq 3.0")}), []string{"p/whole"})
}

func TestNull(t *testing.T) {
	table, _ := newTable(t)
	add(t, table, entity("p", "r", object{"A": 1.0, "B": nil}))
	must(table.UpsertEntity(ctx, entity("p", "r", object{"A": nil, "C": 2.0}).bytes(), nil))(t)
	equal(t, get(t, table, "p", "r"), object{"A": 1.0, "C": 2.0})
}

func TestBadValues(t *testing.T) {
	table, _ := newTable(t)
	for name, each := range map[string]struct{ value, edm, code string }{
		"early date": {"1600-12-31T23:59:59Z", "Edm.DateTime", "OutOfRangeInput"},
		"no date":    {"yesterday", "Edm.DateTime", "InvalidInput"},
		"no guid":    {"x", "Edm.Guid", "InvalidInput"},
		"no number":  {"one", "Edm.Int64", "InvalidInput"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := table.AddEntity(ctx, entity("p", name, object{"A": each.value, "A@odata.type": each.edm}).bytes(), nil)
			refused(t, err, 400, each.code)
		})
	}
}
