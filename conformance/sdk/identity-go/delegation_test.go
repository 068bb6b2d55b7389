package identity

import (
	"io"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
)

func keyInfo() service.KeyInfo {
	start := time.Now().UTC().Add(-time.Minute).Format(sas.TimeFormat)
	expiry := time.Now().UTC().Add(time.Hour).Format(sas.TimeFormat)
	return service.KeyInfo{Start: &start, Expiry: &expiry}
}

func TestDelegatedSignature(t *testing.T) {
	client, name := blobs(t, named("contributor")), uniqueName()
	must(client.CreateContainer(ctx, name, nil))(t)
	must(client.UploadBuffer(ctx, name, "a.txt", []byte("content"), nil))(t)
	key := must(blobService(t, named("reader")).GetUserDelegationCredential(ctx, keyInfo(), nil))(t)
	values := sas.BlobSignatureValues{
		Protocol:      sas.ProtocolHTTPS,
		ExpiryTime:    time.Now().UTC().Add(30 * time.Minute),
		Permissions:   (&sas.BlobPermissions{Read: true, Delete: true}).String(),
		ContainerName: name,
		BlobName:      "a.txt",
	}
	signature := must(values.SignWithUserDelegation(key))(t)
	url := hostStyle(t) + "/" + name + "/a.txt?" + signature.Encode()
	shared := must(blob.NewClientWithNoCredential(url, &blob.ClientOptions{ClientOptions: options()}))(t)
	answer := must(shared.DownloadStream(ctx, nil))(t)
	if content := must(io.ReadAll(answer.Body))(t); string(content) != "content" {
		t.Fatalf("%s", content)
	}
	_, err := shared.Delete(ctx, nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
	must(client.DeleteContainer(ctx, name, nil))(t)
}
