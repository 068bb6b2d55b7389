package sdk

import (
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func action(kind aztables.TransactionType, body object, match *azcore.ETag) aztables.TransactionAction {
	return aztables.TransactionAction{ActionType: kind, Entity: body.bytes(), IfMatch: match}
}

func addAction(row string) aztables.TransactionAction {
	return action(aztables.TransactionTypeAdd, entity("p", row, nil), nil)
}

func TestBatchOfEveryKind(t *testing.T) {
	table, _ := newTable(t)
	for _, row := range []string{"a", "b", "c", "d", "e"} {
		add(t, table, entity("p", row, object{"A": 1, "B": 1}))
	}
	change := object{"A": 2}
	must(table.SubmitTransaction(ctx, []aztables.TransactionAction{
		action(aztables.TransactionTypeAdd, entity("p", "new", change), nil),
		action(aztables.TransactionTypeUpdateMerge, entity("p", "a", change), &anyETag),
		action(aztables.TransactionTypeUpdateReplace, entity("p", "b", change), &anyETag),
		action(aztables.TransactionTypeInsertMerge, entity("p", "c", change), nil),
		action(aztables.TransactionTypeInsertReplace, entity("p", "d", change), nil),
		action(aztables.TransactionTypeInsertReplace, entity("p", "other", change), nil),
		action(aztables.TransactionTypeDelete, entity("p", "e", nil), nil),
	}, nil))(t)
	merged, replaced := object{"A": 2.0, "B": 1.0}, object{"A": 2.0}
	for row, want := range map[string]object{"a": merged, "b": replaced, "c": merged, "d": replaced, "new": replaced, "other": replaced} {
		equal(t, get(t, table, "p", row), want)
	}
	equal(t, keys(t, table, nil), []string{"p/a", "p/b", "p/c", "p/d", "p/new", "p/other"})
}

func TestBatchSize(t *testing.T) {
	table, _ := newTable(t)
	var actions []aztables.TransactionAction
	for number := range 101 {
		actions = append(actions, addAction(fmt.Sprintf("%03d", number)))
	}
	if _, err := table.SubmitTransaction(ctx, actions, nil); err == nil || !strings.Contains(err.Error(), "InvalidInput") {
		t.Fatalf("not refused with InvalidInput, but: %v", err)
	}
	equal(t, keys(t, table, nil), []string{})
	must(table.SubmitTransaction(ctx, actions[:100], nil))(t)
	equal(t, len(keys(t, table, nil)), 100)
}

func TestBatchFailsAsOne(t *testing.T) {
	for name, each := range map[string]struct {
		action       aztables.TransactionAction
		status, code string
	}{
		"insert of an existing entity": {addAction("old"), "409", "EntityAlreadyExists"},
		"merge of a missing entity":    {action(aztables.TransactionTypeUpdateMerge, entity("p", "gone", nil), &anyETag), "404", "ResourceNotFound"},
		"delete of a missing entity":   {action(aztables.TransactionTypeDelete, entity("p", "gone", nil), nil), "404", "ResourceNotFound"},
		"stale ETag":                   {action(aztables.TransactionTypeUpdateReplace, entity("p", "old", nil), &stale), "412", "UpdateConditionNotSatisfied"},
		"delete under a stale ETag":    {action(aztables.TransactionTypeDelete, entity("p", "old", nil), &stale), "412", "UpdateConditionNotSatisfied"},
		"same entity again":            {addAction("n0"), "400", "InvalidDuplicateRow"},
		"another partition":            {action(aztables.TransactionTypeAdd, entity("q", "r", nil), nil), "400", "CommandsInBatchActOnDifferentPartitions"},
		"value too large":              {action(aztables.TransactionTypeAdd, entity("p", "big", object{"A": strings.Repeat("x", 32769)}), nil), "400", "PropertyValueTooLarge"},
		"forbidden key":                {addAction("a/b"), "400", "OutOfRangeInput"},
	} {
		t.Run(name, func(t *testing.T) {
			table, _ := newTable(t)
			add(t, table, entity("p", "old", object{"A": 1}))
			before := must(table.GetEntity(ctx, "p", "old", nil))(t).ETag
			_, err := table.SubmitTransaction(ctx, []aztables.TransactionAction{addAction("n0"), addAction("n1"), each.action, addAction("n2")}, nil)
			batchRefused(t, err, each.status, each.code, "2")
			equal(t, keys(t, table, nil), []string{"p/old"})
			equal(t, must(table.GetEntity(ctx, "p", "old", nil))(t).ETag, before)
		})
	}
}

func TestBatchInMissingTable(t *testing.T) {
	_, err := service(t).NewClient(uniqueName()).SubmitTransaction(ctx, []aztables.TransactionAction{addAction("r")}, nil)
	batchRefused(t, err, "404", "TableNotFound", "0")
}

func TestBatchTooLarge(t *testing.T) {
	table, _ := newTable(t)
	large := object{}
	for number := range 16 {
		large[fmt.Sprintf("P%d", number)] = strings.Repeat("x", 32000)
	}
	var actions []aztables.TransactionAction
	for number := range 10 {
		actions = append(actions, action(aztables.TransactionTypeAdd, entity("p", fmt.Sprint(number), large), nil))
	}
	_, err := table.SubmitTransaction(ctx, actions, nil)
	refused(t, err, 413, "RequestBodyTooLarge")
	equal(t, keys(t, table, nil), []string{})
}
