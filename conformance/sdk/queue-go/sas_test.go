package sdk

import (
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/sas"
)

func queueToken(t *testing.T, values sas.QueueSignatureValues) string {
	t.Helper()
	if values.ExpiryTime.IsZero() && values.Identifier == "" {
		values.ExpiryTime = soon()
	}
	token := must(values.SignWithSharedKey(credential(t, key)))(t)
	return token.Encode()
}

func accountToken(t *testing.T, permissions, resources string) string {
	t.Helper()
	values := sas.AccountSignatureValues{Permissions: permissions, ResourceTypes: resources, ExpiryTime: soon()}
	token := must(values.SignWithSharedKey(credential(t, key)))(t)
	return token.Encode()
}

var operations = map[string]struct {
	letter string
	call   func(*azqueue.QueueClient, *azqueue.EnqueuedMessage) error
}{
	"peek": {"r", func(c *azqueue.QueueClient, _ *azqueue.EnqueuedMessage) error {
		_, err := c.PeekMessage(ctx, nil)
		return err
	}},
	"put": {"a", func(c *azqueue.QueueClient, _ *azqueue.EnqueuedMessage) error {
		_, err := c.EnqueueMessage(ctx, "x", nil)
		return err
	}},
	"get": {"p", func(c *azqueue.QueueClient, _ *azqueue.EnqueuedMessage) error {
		_, err := c.DequeueMessage(ctx, nil)
		return err
	}},
	"update": {"u", func(c *azqueue.QueueClient, sent *azqueue.EnqueuedMessage) error {
		_, err := c.UpdateMessage(ctx, *sent.MessageID, *sent.PopReceipt, "y", nil)
		return err
	}},
	"delete": {"p", func(c *azqueue.QueueClient, sent *azqueue.EnqueuedMessage) error {
		_, err := c.DeleteMessage(ctx, *sent.MessageID, *sent.PopReceipt, nil)
		return err
	}},
}

func TestRights(t *testing.T) {
	for name, operation := range operations {
		t.Run(name, func(t *testing.T) {
			queue, queueName := newQueue(t)
			sent := put(t, queue, "old")
			as := func(token string) error { return operation.call(withToken(t, queueName, token), sent) }
			others := strings.Replace("raup", operation.letter, "", 1)
			refused(t, as(queueToken(t, sas.QueueSignatureValues{QueueName: queueName, Permissions: others})), 403, "AuthorizationPermissionMismatch")
			refused(t, as(accountToken(t, strings.Replace("rwdlacup", operation.letter, "", 1), "o")), 403, "AuthorizationPermissionMismatch")
			refused(t, as(accountToken(t, "rwdlacup", "sc")), 403, "AuthorizationResourceTypeMismatch")
			if err := as(queueToken(t, sas.QueueSignatureValues{QueueName: queueName, Permissions: operation.letter})); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestAccountSASForQueues(t *testing.T) {
	name := uniqueName()
	queue := withToken(t, name, accountToken(t, "cd", "c"))
	must(queue.Create(ctx, nil))(t)
	_, err := queue.GetProperties(ctx, nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
	must(queue.Delete(ctx, nil))(t)
}

func TestRefusedTokens(t *testing.T) {
	_, name := newQueue(t)
	for title, each := range map[string]struct {
		values sas.QueueSignatureValues
		code   string
	}{
		"expired":        {sas.QueueSignatureValues{QueueName: name, Permissions: "p", ExpiryTime: time.Now().UTC().Add(-time.Minute)}, "AuthenticationFailed"},
		"not yet valid":  {sas.QueueSignatureValues{QueueName: name, Permissions: "p", StartTime: time.Now().UTC().Add(5 * time.Minute)}, "AuthenticationFailed"},
		"unknown policy": {sas.QueueSignatureValues{QueueName: name, Identifier: "nobody"}, "AuthenticationFailed"},
		"https only":     {sas.QueueSignatureValues{QueueName: name, Permissions: "p", Protocol: sas.ProtocolHTTPS}, "AuthorizationProtocolMismatch"},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := withToken(t, name, queueToken(t, each.values)).DequeueMessage(ctx, nil)
			refused(t, err, 403, each.code)
		})
	}
}

func TestAccessPolicies(t *testing.T) {
	queue, name := newQueue(t)
	put(t, queue, "x")
	expiry := time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)
	policy := &azqueue.SignedIdentifier{ID: pointer("reader"), AccessPolicy: &azqueue.AccessPolicy{Expiry: &expiry, Permission: pointer("r")}}
	must(queue.SetAccessPolicy(ctx, &azqueue.SetAccessPolicyOptions{QueueACL: []*azqueue.SignedIdentifier{policy}}))(t)
	found := must(queue.GetAccessPolicy(ctx, nil))(t).SignedIdentifiers
	equal(t, []any{len(found), *found[0].ID, *found[0].AccessPolicy.Permission}, []any{1, "reader", "r"})
	reader := withToken(t, name, queueToken(t, sas.QueueSignatureValues{QueueName: name, Identifier: "reader"}))
	equal(t, texts(t, reader), []string{"x"})
	_, err := reader.DequeueMessage(ctx, nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
	must(queue.SetAccessPolicy(ctx, nil))(t)
	_, err = reader.PeekMessage(ctx, nil)
	refused(t, err, 403, "AuthenticationFailed")
}
