package sdk

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
)

func TestContainer(t *testing.T) {
	client := blobs(t).NewContainerClient(uniqueName())
	made := must(client.Create(ctx, &container.CreateOptions{Metadata: map[string]*string{"team": pointer("core")}}))(t)
	found := must(client.GetProperties(ctx, nil))(t)
	equal(t, *found.ETag, *made.ETag)
	equal(t, *found.LeaseState, lease.StateTypeAvailable)
	_, err := client.Create(ctx, nil)
	refused(t, err, 409, "ContainerAlreadyExists")
	must(client.SetMetadata(ctx, &container.SetMetadataOptions{Metadata: map[string]*string{"zone": pointer("two words")}}))(t)
	// The client canonicalises the names of headers.
	equal(t, *must(client.GetProperties(ctx, nil))(t).Metadata["Zone"], "two words")
	must(client.Delete(ctx, nil))(t)
	_, err = client.GetProperties(ctx, nil)
	refused(t, err, 404, "ContainerNotFound")
	_, err = client.Delete(ctx, nil)
	refused(t, err, 404, "ContainerNotFound")
}

func TestBadContainerNames(t *testing.T) {
	for name, code := range map[string]string{"Upper": "InvalidResourceName", "a--b": "InvalidResourceName", "ab": "OutOfRangeInput"} {
		t.Run(name, func(t *testing.T) {
			_, err := blobs(t).NewContainerClient(name).Create(ctx, nil)
			refused(t, err, 400, code)
		})
	}
}

func TestContainersAreListedInPages(t *testing.T) {
	prefix := uniqueName()
	want := [][]string{{prefix + "-0", prefix + "-1"}, {prefix + "-2", prefix + "-3"}, {prefix + "-4"}}
	for _, page := range want {
		for _, name := range page {
			must(blobs(t).CreateContainer(ctx, name, nil))(t)
			defer func() { must(blobs(t).DeleteContainer(ctx, name, nil))(t) }()
		}
	}
	var pages [][]string
	for pager := blobs(t).NewListContainersPager(&service.ListContainersOptions{Prefix: &prefix, MaxResults: pointer(int32(2))}); pager.More(); {
		var page []string
		for _, item := range must(pager.NextPage(ctx))(t).ContainerItems {
			page = append(page, *item.Name)
		}
		pages = append(pages, page)
	}
	equal(t, pages, want)
}

func TestPoliciesAndPublicAccess(t *testing.T) {
	client, name := newContainer(t)
	put(t, client, "a", "for everyone")
	expiry := time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)
	must(client.SetAccessPolicy(ctx, &container.SetAccessPolicyOptions{
		Access: pointer(container.PublicAccessTypeBlob),
		ContainerACL: []*container.SignedIdentifier{
			{ID: pointer("reader"), AccessPolicy: &container.AccessPolicy{Permission: pointer("rl"), Start: &expiry, Expiry: &expiry}},
		},
	}))(t)
	found := must(client.GetAccessPolicy(ctx, nil))(t)
	equal(t, *found.BlobPublicAccess, container.PublicAccessTypeBlob)
	equal(t, len(found.SignedIdentifiers), 1)
	equal(t, *found.SignedIdentifiers[0].AccessPolicy.Permission, "rl")
	equal(t, found.SignedIdentifiers[0].AccessPolicy.Expiry.UTC(), expiry)
	equal(t, text(t, withToken(t, name+"/a", "")), "for everyone")
	must(client.SetAccessPolicy(ctx, nil))(t)
	if _, err := withToken(t, name+"/a", "").GetProperties(ctx, nil); err == nil {
		t.Fatal("a stranger reads a private blob")
	}
}

func TestContainerLease(t *testing.T) {
	client, _ := newContainer(t)
	leased := must(lease.NewContainerClient(client, nil))(t)
	must(leased.AcquireLease(ctx, 15, nil))(t)
	_, err := client.Delete(ctx, nil)
	refused(t, err, 412, "LeaseIdMissing")
	must(leased.RenewLease(ctx, nil))(t)
	must(leased.ReleaseLease(ctx, nil))(t)
	equal(t, *must(client.GetProperties(ctx, nil))(t).LeaseState, lease.StateTypeAvailable)
}

func TestWrongKey(t *testing.T) {
	_, name := newContainer(t)
	_, err := serviceBy(t, wrongKey).NewContainerClient(name).GetProperties(ctx, nil)
	refused(t, err, 403, "AuthenticationFailed")
}

func TestAccountInformation(t *testing.T) {
	found := must(blobs(t).GetAccountInfo(ctx, nil))(t)
	equal(t, []any{*found.SKUName, *found.AccountKind}, []any{service.SKUNameStandardLRS, service.AccountKindStorageV2})
}

func TestServiceProperties(t *testing.T) {
	off := &service.RetentionPolicy{Enabled: pointer(false)}
	set := func(rules []*service.CORSRule) {
		must(blobs(t).SetProperties(ctx, &service.SetPropertiesOptions{
			CORS:        rules,
			HourMetrics: &service.Metrics{Version: pointer("1.0"), Enabled: pointer(false), RetentionPolicy: off},
		}))(t)
	}
	defer set([]*service.CORSRule{})
	rule := &service.CORSRule{
		AllowedOrigins: pointer("http://www.example.com"), AllowedMethods: pointer("GET,PUT"), AllowedHeaders: pointer("x-ms-*"),
		ExposedHeaders: pointer("x-ms-*"), MaxAgeInSeconds: pointer(int32(500)),
	}
	// The properties belong to the whole account: another run may have written between our two steps.
	var found []*service.CORSRule
	for attempt := 0; attempt < 5 && len(found) != 1; attempt++ {
		set([]*service.CORSRule{rule})
		found = must(blobs(t).GetProperties(ctx, nil))(t).CORS
	}
	equal(t, found, []*service.CORSRule{rule})
}
