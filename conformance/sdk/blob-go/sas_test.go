package sdk

import (
	"net/url"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
)

func TestRights(t *testing.T) {
	for name, each := range map[string]struct {
		letter, others string
		call           func(*blockblob.Client) error
	}{
		"read":     {"r", "wd", func(client *blockblob.Client) error { _, err := client.DownloadStream(ctx, nil); return err }},
		"write":    {"w", "rd", func(client *blockblob.Client) error { _, err := client.Upload(ctx, body([]byte("x")), nil); return err }},
		"metadata": {"w", "rcd", func(client *blockblob.Client) error { _, err := client.SetMetadata(ctx, nil, nil); return err }},
		"delete":   {"d", "rcw", func(client *blockblob.Client) error { _, err := client.Delete(ctx, nil); return err }},
		"snapshot": {"c", "rd", func(client *blockblob.Client) error { _, err := client.CreateSnapshot(ctx, nil); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			client, containerName := newContainer(t)
			put(t, client, "dir/a", "old")
			with := func(letters string) *blockblob.Client {
				values := sas.BlobSignatureValues{ContainerName: containerName, BlobName: "dir/a", Permissions: letters}
				return withToken(t, containerName+"/dir/a", blobToken(t, values, key))
			}
			refused(t, each.call(with(each.others)), 403, "AuthorizationPermissionMismatch")
			ok(t, each.call(with(each.letter)))
		})
	}
}

func TestContainerToken(t *testing.T) {
	client, name := newContainer(t)
	put(t, client, "a", "x")
	token := blobToken(t, sas.BlobSignatureValues{ContainerName: name, Permissions: "rl"}, key)
	options := &container.ClientOptions{ClientOptions: noRetries()}
	stranger := must(container.NewClientWithNoCredential(endpoint+"/"+name+"?"+token, options))(t)
	equal(t, names(t, stranger, nil), []string{"a"})
	equal(t, text(t, stranger.NewBlobClient("a")), "x")
	_, err := stranger.NewBlobClient("a").Delete(ctx, nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
}

func TestSnapshotToken(t *testing.T) {
	client, name := newContainer(t)
	made := put(t, client, "a", "old")
	taken := must(made.CreateSnapshot(ctx, nil))(t).Snapshot
	must(made.Upload(ctx, body([]byte("new")), nil))(t)
	// GetSASURL of a snapshot puts a second question mark into the address.
	when := must(time.Parse("2006-01-02T15:04:05.0000000Z07:00", *taken))(t)
	token := blobToken(t, sas.BlobSignatureValues{ContainerName: name, BlobName: "a", SnapshotTime: when, Permissions: "r"}, key)
	equal(t, text(t, withToken(t, name+"/a", "snapshot="+url.QueryEscape(*taken)+"&"+token)), "old")
	_, err := withToken(t, name+"/a", token).DownloadStream(ctx, nil)
	refused(t, err, 403, "AuthenticationFailed")
	must(made.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: pointer(blob.DeleteSnapshotsOptionTypeInclude)}))(t)
}

func TestPolicy(t *testing.T) {
	client, name := newContainer(t)
	put(t, client, "a", "x")
	must(client.SetAccessPolicy(ctx, &container.SetAccessPolicyOptions{ContainerACL: []*container.SignedIdentifier{
		{ID: pointer("reader"), AccessPolicy: &container.AccessPolicy{Permission: pointer("r"), Expiry: pointer(soon()), Start: pointer(inMinutes(-5))}},
	}}))(t)
	stranger := withToken(t, name+"/a", blobToken(t, sas.BlobSignatureValues{ContainerName: name, BlobName: "a", Identifier: "reader"}, key))
	equal(t, text(t, stranger), "x")
	_, err := stranger.Delete(ctx, nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
	must(client.SetAccessPolicy(ctx, nil))(t)
	_, err = stranger.DownloadStream(ctx, nil)
	refused(t, err, 403, "AuthenticationFailed")
}

func TestRefusedTokens(t *testing.T) {
	client, name := newContainer(t)
	put(t, client, "a", "x")
	values := sas.BlobSignatureValues{ContainerName: name, BlobName: "a", Permissions: "r"}
	expired, early, other := values, values, values
	expired.ExpiryTime = inMinutes(-1)
	early.StartTime = inMinutes(5)
	other.BlobName = "b"
	for title, token := range map[string]string{
		"expired": blobToken(t, expired, key), "not yet valid": blobToken(t, early, key), "another blob": blobToken(t, other, key),
		"another key": blobToken(t, values, wrongKey),
	} {
		t.Run(title, func(t *testing.T) {
			_, err := withToken(t, name+"/a", token).DownloadStream(ctx, nil)
			refused(t, err, 403, "AuthenticationFailed")
		})
	}
}

func TestReplacedHeaders(t *testing.T) {
	client, name := newContainer(t)
	put(t, client, "a", "x")
	values := sas.BlobSignatureValues{ContainerName: name, BlobName: "a", Permissions: "r", ContentType: "text/csv", CacheControl: "no-cache"}
	found := must(withToken(t, name+"/a", blobToken(t, values, key)).GetProperties(ctx, nil))(t)
	equal(t, []string{*found.ContentType, *found.CacheControl}, []string{"text/csv", "no-cache"})
}
