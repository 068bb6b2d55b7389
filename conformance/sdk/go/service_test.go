package sdk

import (
	"reflect"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func metrics(enabled bool) *aztables.Metrics {
	if !enabled {
		return &aztables.Metrics{Version: pointer("1.0"), Enabled: pointer(false), RetentionPolicy: &aztables.RetentionPolicy{Enabled: pointer(false)}}
	}
	week := &aztables.RetentionPolicy{Enabled: pointer(true), Days: pointer(int32(7))}
	return &aztables.Metrics{Version: pointer("1.0"), Enabled: pointer(true), IncludeAPIs: pointer(true), RetentionPolicy: week}
}

func logging(enabled bool) *aztables.Logging {
	return &aztables.Logging{
		Version: pointer("1.0"), Read: pointer(enabled), Write: pointer(enabled), Delete: pointer(enabled),
		RetentionPolicy: metrics(enabled).RetentionPolicy,
	}
}

func TestServiceProperties(t *testing.T) {
	tables := service(t)
	t.Cleanup(func() {
		_, _ = tables.SetProperties(ctx, aztables.ServiceProperties{
			Logging: logging(false), HourMetrics: metrics(false), MinuteMetrics: metrics(false),
		}, nil)
	})
	rule := &aztables.CorsRule{
		AllowedOrigins: pointer("http://www.example.com,http://b.example"), AllowedMethods: pointer("GET,PUT"),
		AllowedHeaders: pointer("x-ms-meta-abc"), ExposedHeaders: pointer("x-ms-meta-*"), MaxAgeInSeconds: pointer(int32(500)),
	}
	wanted := aztables.ServiceProperties{
		Logging: logging(true), HourMetrics: metrics(true), MinuteMetrics: metrics(true), Cors: []*aztables.CorsRule{rule},
	}
	// The properties belong to the whole account: another run may have written between our two steps.
	var stored aztables.ServiceProperties
	for attempt := 0; attempt < 5 && !reflect.DeepEqual(stored, wanted); attempt++ {
		must(tables.SetProperties(ctx, wanted, nil))(t)
		stored = must(tables.GetProperties(ctx, nil))(t).ServiceProperties
	}
	equal(t, *stored.Cors[0], *rule)
	equal(t, stored, wanted)
}

func TestBadServiceProperties(t *testing.T) {
	year := metrics(true)
	year.RetentionPolicy = &aztables.RetentionPolicy{Enabled: pointer(true), Days: pointer(int32(366))}
	_, err := service(t).SetProperties(ctx, aztables.ServiceProperties{HourMetrics: year}, nil)
	refused(t, err, 400, "InvalidXmlDocument")
}

func TestSecondary(t *testing.T) {
	secondary := serviceAt(t, endpoint+"-secondary")
	status := must(secondary.GetStatistics(ctx, nil))(t).GeoReplication.Status
	if !slices.Contains(aztables.PossibleGeoReplicationStatusValues(), *status) {
		t.Fatalf("unknown status %v", *status)
	}
	table, name := newTable(t)
	add(t, table, entity("p", "r", nil))
	equal(t, keys(t, secondary.NewClient(name), nil), []string{"p/r"})
	_, err := secondary.NewClient(name).AddEntity(ctx, entity("p", "new", nil).bytes(), nil)
	refused(t, err, 403, "InsufficientAccountPermissions")
}
