package sdk

import (
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// receipts is a policy that keeps the receipts of the answers it sees, and may ask for their timing.
type receipts struct {
	asked  string
	seen   []string
	timing []string
}

func (r *receipts) Do(request *policy.Request) (*http.Response, error) {
	if r.asked != "" {
		request.Raw().Header.Set("tepui-receipt", r.asked)
	}
	response, err := request.Next()
	if err == nil {
		r.seen = append(r.seen, response.Header.Get("tepui-receipt"))
		r.timing = append(r.timing, response.Header.Get("Server-Timing"))
	}
	return response, err
}

// take gives what a test can know of the receipts before they come, and forgets them.
func (r *receipts) take() []string {
	known := []string{}
	for _, receipt := range r.seen {
		members := []string{}
		for _, member := range strings.Split(receipt, ", ") {
			if !strings.HasPrefix(member, "bytes=") && !strings.HasPrefix(member, "ms=") {
				members = append(members, member)
			}
		}
		known = append(known, strings.Join(members, ", "))
	}
	r.seen = nil
	return known
}

// newTableWith makes a table for one test whose client has a policy.
func newTableWith(t *testing.T, each policy.Policy) *aztables.Client {
	t.Helper()
	_, name := newTable(t)
	options := &aztables.ClientOptions{ClientOptions: azcore.ClientOptions{
		Retry:           policy.RetryOptions{MaxRetries: -1},
		PerCallPolicies: []policy.Policy{each},
	}}
	tables := must(aztables.NewServiceClientWithSharedKey(endpoint, credential(t, account, key), options))(t)
	return tables.NewClient(name)
}

func TestReceipts(t *testing.T) {
	kept := &receipts{}
	table := newTableWith(t, kept)
	for number, row := range []string{"0", "1", "2", "3", "4"} {
		add(t, table, entity("p", row, object{"Number": number}))
	}
	equal(t, strings.Join(kept.take(), "\n"), strings.TrimSuffix(strings.Repeat("ranges=0, scanned=0, returned=0, units=1\n", 5), "\n"))
	three := int32(3)
	for _, each := range []struct {
		filter string
		top    *int32
		want   string
	}{
		{"PartitionKey eq 'p'", nil, "plan=partition, ranges=1, scanned=5, returned=5, units=5"},
		{"PartitionKey eq 'p' and Number eq 3", nil, "plan=partition, ranges=1, scanned=5, returned=1, units=5"},
		{"PartitionKey eq 'p' and (RowKey eq '1' or RowKey eq '3')", nil,
			"plan=point, ranges=2, scanned=2, returned=2, units=2, hint=use-point"},
		{"Number ge 0", &three, "plan=table, ranges=1, scanned=4, returned=3, units=4, more\n" +
			"plan=table, ranges=1, scanned=2, returned=2, units=2"},
	} {
		t.Run(each.filter, func(t *testing.T) {
			keys(t, table, &aztables.ListEntitiesOptions{Filter: &each.filter, Top: each.top})
			equal(t, strings.Join(kept.take(), "\n"), each.want)
		})
	}
	get(t, table, "p", "1")
	equal(t, strings.Join(kept.take(), "\n"), "plan=point, ranges=1, scanned=1, returned=1, units=1")
	_, err := table.GetEntity(ctx, "p", "none", nil)
	refused(t, err, 404, "ResourceNotFound")
	equal(t, strings.Join(kept.take(), "\n"), "plan=point, ranges=1, scanned=0, returned=0, units=1")
	changes := []aztables.TransactionAction{}
	for _, row := range []string{"5", "6", "7"} {
		changes = append(changes, aztables.TransactionAction{
			ActionType: aztables.TransactionTypeAdd,
			Entity:     entity("p", row, object{"Text": strings.Repeat("x", 2048)}).bytes(),
		})
	}
	must(table.SubmitTransaction(ctx, changes, nil))(t)
	equal(t, strings.Join(kept.take(), "\n"), "ranges=0, scanned=0, returned=0, units=6, operations=3")
}

func TestServerTimingWhenAskedFor(t *testing.T) {
	kept := &receipts{}
	table := newTableWith(t, kept)
	keys(t, table, nil)
	kept.asked = "timing"
	keys(t, table, nil)
	equal(t, kept.timing[0], "")
	names := []string{}
	for _, metric := range strings.Split(kept.timing[1], ", ") {
		name, _, _ := strings.Cut(metric, ";dur=")
		names = append(names, name)
	}
	equal(t, strings.Join(names, " "), "auth body plan read commit reply")
}
