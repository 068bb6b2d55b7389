package identity

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func TestTables(t *testing.T) {
	service, name := tables(t, named("contributor")), uniqueName()
	must(service.CreateTable(ctx, name, nil))(t)
	table := service.NewClient(name)
	entity := must(json.Marshal(map[string]string{"PartitionKey": "p", "RowKey": "1", "Name": "Ada"}))(t)
	must(table.AddEntity(ctx, entity, nil))(t)
	other := must(json.Marshal(map[string]string{"PartitionKey": "p", "RowKey": "2"}))(t)
	action := aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace, Entity: other}
	must(table.SubmitTransaction(ctx, []aztables.TransactionAction{action}, nil))(t)
	page := must(table.NewListEntitiesPager(nil).NextPage(ctx))(t)
	if len(page.Entities) != 2 {
		t.Fatalf("%d entities", len(page.Entities))
	}
	must(service.DeleteTable(ctx, name, nil))(t)
}

func TestQueues(t *testing.T) {
	service, name := queues(t, named("contributor")), uniqueName()
	must(service.CreateQueue(ctx, name, nil))(t)
	queue := service.NewQueueClient(name)
	must(queue.EnqueueMessage(ctx, "work", nil))(t)
	messages := must(queue.DequeueMessage(ctx, nil))(t).Messages
	if len(messages) != 1 || *messages[0].MessageText != "work" {
		t.Fatalf("%v", messages)
	}
	must(queue.DeleteMessage(ctx, *messages[0].MessageID, *messages[0].PopReceipt, nil))(t)
	must(service.DeleteQueue(ctx, name, nil))(t)
}

func TestBlobs(t *testing.T) {
	client, name := blobs(t, named("contributor")), uniqueName()
	must(client.CreateContainer(ctx, name, nil))(t)
	must(client.UploadBuffer(ctx, name, "a.txt", []byte("content"), nil))(t)
	answer := must(client.DownloadStream(ctx, name, "a.txt", nil))(t)
	if content := must(io.ReadAll(answer.Body))(t); string(content) != "content" {
		t.Fatalf("%s", content)
	}
	must(client.DeleteBlob(ctx, name, "a.txt", nil))(t)
	must(client.DeleteContainer(ctx, name, nil))(t)
}

func TestRoles(t *testing.T) {
	const denied = "AuthorizationPermissionMismatch"
	for service, calls := range requests(t, named("reader")) {
		t.Run(service+"/reader", func(t *testing.T) {
			if err := calls[0](); err != nil {
				t.Fatal(err)
			}
			refused(t, calls[1](), 403, denied)
		})
	}
	for service, calls := range requests(t, named("nobody")) {
		t.Run(service+"/nobody", func(t *testing.T) {
			refused(t, calls[0](), 403, denied)
			refused(t, calls[1](), 403, denied)
		})
	}
	for service, calls := range requests(t, named("member")) {
		t.Run(service+"/member", func(t *testing.T) {
			for _, call := range calls {
				if err := call(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestBadTokens(t *testing.T) {
	for _, expected := range server.Refused {
		for service, calls := range requests(t, fixedToken(expected.Token)) {
			t.Run(service+"/"+expected.Name, func(t *testing.T) {
				if service == "table" {
					// This client speaks a version without the challenge.
					answer := refused(t, calls[0](), 403, "AuthenticationFailed")
					if challenge := answer.Header.Get("WWW-Authenticate"); challenge != "" {
						t.Fatalf("challenge %q", challenge)
					}
					return
				}
				answer := refused(t, calls[0](), 401, "InvalidAuthenticationInfo")
				if challenge := answer.Header.Get("WWW-Authenticate"); challenge != expected.Challenge {
					t.Fatalf("challenge %q", challenge)
				}
				body := string(must(io.ReadAll(answer.Body))(t))
				if !strings.Contains(body, "<AuthenticationErrorDetail>"+expected.Detail+"<") {
					t.Fatalf("detail %q", body)
				}
			})
		}
	}
}

func TestDelegationKey(t *testing.T) {
	if _, err := blobService(t, named("nobody")).GetUserDelegationCredential(ctx, keyInfo(), nil); err == nil {
		t.Fatal("a key without a role")
	}
	if _, err := blobService(t, named("reader")).GetUserDelegationCredential(ctx, keyInfo(), nil); err != nil {
		t.Fatal(err)
	}
}
