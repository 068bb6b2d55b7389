package sdk

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue"
)

func TestCreateAndDelete(t *testing.T) {
	queue := service(t).NewQueueClient(uniqueName())
	metadata := &azqueue.CreateOptions{Metadata: map[string]*string{"team": pointer("core")}}
	must(queue.Create(ctx, metadata))(t)
	must(queue.Create(ctx, metadata))(t)
	_, err := queue.Create(ctx, nil)
	refused(t, err, 409, "QueueAlreadyExists")
	equal(t, count(t, queue), int32(0))
	must(queue.Delete(ctx, nil))(t)
	_, err = queue.GetProperties(ctx, nil)
	refused(t, err, 404, "QueueNotFound")
	_, err = queue.Delete(ctx, nil)
	refused(t, err, 404, "QueueNotFound")
}

func TestBadNames(t *testing.T) {
	for name, code := range map[string]string{
		"Upper": "InvalidResourceName", "a--b": "InvalidResourceName", "ab": "OutOfRangeInput", strings.Repeat("x", 64): "OutOfRangeInput",
	} {
		_, err := service(t).CreateQueue(ctx, name, nil)
		refused(t, err, 400, code)
	}
}

func TestMetadata(t *testing.T) {
	queue, _ := newQueue(t)
	must(queue.SetMetadata(ctx, &azqueue.SetMetadataOptions{Metadata: map[string]*string{"team": pointer("two words")}}))(t)
	found := must(queue.GetProperties(ctx, nil))(t).Metadata
	equal(t, len(found), 1)
	for name, value := range found {
		// The client reads names as net/http spells headers.
		equal(t, strings.ToLower(name)+"="+*value, "team=two words")
	}
	_, err := queue.SetMetadata(ctx, &azqueue.SetMetadataOptions{Metadata: map[string]*string{"1bad": pointer("x")}})
	refused(t, err, 400, "InvalidMetadata")
	must(queue.SetMetadata(ctx, nil))(t)
	equal(t, len(must(queue.GetProperties(ctx, nil))(t).Metadata), 0)
}

func TestList(t *testing.T) {
	queues, prefix := service(t), uniqueName()
	names := []string{}
	for number := range 5 {
		names = append(names, prefix+"-"+strconv.Itoa(number))
		must(queues.CreateQueue(ctx, names[number], nil))(t)
		defer func() { _, _ = queues.DeleteQueue(ctx, names[number], nil) }()
	}
	pages := [][]string{}
	for pager := queues.NewListQueuesPager(&azqueue.ListQueuesOptions{Prefix: &prefix, MaxResults: pointer(int32(2))}); pager.More(); {
		page := []string{}
		for _, queue := range must(pager.NextPage(ctx))(t).Queues {
			page = append(page, *queue.Name)
		}
		pages = append(pages, page)
	}
	equal(t, pages, [][]string{names[:2], names[2:4], names[4:]})
}

func TestWrongKey(t *testing.T) {
	_, name := newQueue(t)
	_, err := serviceAt(t, endpoint+"/", wrongKey).NewQueueClient(name).GetProperties(ctx, nil)
	refused(t, err, 403, "AuthenticationFailed")
}

func TestServiceProperties(t *testing.T) {
	queues := service(t)
	retention := func(on bool) *azqueue.RetentionPolicy {
		if !on {
			return &azqueue.RetentionPolicy{Enabled: &on}
		}
		return &azqueue.RetentionPolicy{Enabled: &on, Days: pointer(int32(7))}
	}
	logging := func(on bool) *azqueue.Logging {
		return &azqueue.Logging{Version: pointer("1.0"), Read: &on, Write: &on, Delete: &on, RetentionPolicy: retention(on)}
	}
	t.Cleanup(func() { _, _ = queues.SetProperties(ctx, &azqueue.SetPropertiesOptions{Logging: logging(false)}) })
	// The properties belong to the whole account: another run may have written between our two steps.
	var stored *azqueue.Logging
	for attempt := 0; attempt < 5 && (stored == nil || !*stored.Read); attempt++ {
		must(queues.SetProperties(ctx, &azqueue.SetPropertiesOptions{Logging: logging(true)}))(t)
		stored = must(queues.GetServiceProperties(ctx, nil))(t).Logging
	}
	equal(t, stored, logging(true))
}

func TestStatistics(t *testing.T) {
	status := must(serviceAt(t, endpoint+"-secondary/", key).GetStatistics(ctx, nil))(t).GeoReplication.Status
	if !slices.Contains([]string{"live", "bootstrap", "unavailable"}, string(*status)) {
		t.Fatalf("unknown status %v", *status)
	}
}
