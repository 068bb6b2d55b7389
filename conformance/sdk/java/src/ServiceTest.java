import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableServiceCorsRule;
import com.azure.data.tables.models.TableServiceLogging;
import com.azure.data.tables.models.TableServiceMetrics;
import com.azure.data.tables.models.TableServiceProperties;
import com.azure.data.tables.models.TableServiceRetentionPolicy;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class ServiceTest extends TableTest {
    private static TableServiceRetentionPolicy days(int days) {
        return new TableServiceRetentionPolicy().setEnabled(days > 0).setDaysToRetain(days > 0 ? days : null);
    }

    private static TableServiceMetrics metrics(boolean enabled, int days) {
        return new TableServiceMetrics().setVersion("1.0").setEnabled(enabled)
            .setIncludeApis(enabled ? true : null).setRetentionPolicy(days(days));
    }

    private static TableServiceLogging logging(boolean enabled) {
        return new TableServiceLogging().setAnalyticsVersion("1.0").setReadLogged(enabled).setWriteLogged(enabled)
            .setDeleteLogged(enabled).setRetentionPolicy(days(enabled ? 7 : 0));
    }

    @AfterEach
    void everythingOff() {
        service.setProperties(new TableServiceProperties().setLogging(logging(false))
            .setHourMetrics(metrics(false, 0)).setMinuteMetrics(metrics(false, 0)).setCorsRules(List.of()));
    }

    @Test
    void propertiesRoundTrip() {
        TableServiceCorsRule rule = new TableServiceCorsRule().setAllowedOrigins("http://www.example.com")
            .setAllowedMethods("GET,PUT").setAllowedHeaders("x-ms-meta-abc").setExposedHeaders("x-ms-meta-*")
            .setMaxAgeInSeconds(500);
        // The properties belong to the whole account: another run may have written between our two steps.
        TableServiceProperties stored = null;
        for (int attempt = 0; attempt < 5 && (stored == null || stored.getCorsRules().size() != 1); attempt++) {
            service.setProperties(new TableServiceProperties().setLogging(logging(true))
                .setHourMetrics(metrics(true, 7)).setMinuteMetrics(metrics(true, 5)).setCorsRules(List.of(rule)));
            stored = service.getProperties();
        }
        assertEquals(
            List.of(true, true, true, 7),
            List.of(stored.getLogging().isReadLogged(), stored.getLogging().isWriteLogged(),
                stored.getLogging().isDeleteLogged(), stored.getLogging().getRetentionPolicy().getDaysToRetain()));
        assertEquals(7, stored.getHourMetrics().getTableServiceRetentionPolicy().getDaysToRetain());
        assertEquals(5, stored.getMinuteMetrics().getTableServiceRetentionPolicy().getDaysToRetain());
        assertEquals(true, stored.getHourMetrics().isIncludeApis());
        TableServiceCorsRule found = stored.getCorsRules().get(0);
        assertEquals(
            List.of("http://www.example.com", "GET,PUT", "x-ms-meta-abc", "x-ms-meta-*", 500),
            List.of(found.getAllowedOrigins(), found.getAllowedMethods(), found.getAllowedHeaders(),
                found.getExposedHeaders(), found.getMaxAgeInSeconds()));
    }

    @Test
    void badProperties() {
        refused(400, "InvalidXmlDocument",
            () -> service.setProperties(new TableServiceProperties().setHourMetrics(metrics(true, 366))));
    }

    @Test
    void secondary() {
        TableServiceClient secondary = serviceAt(SECONDARY, ACCOUNT, KEY);
        String status = secondary.getStatistics().getGeoReplication().getStatus().toString();
        assertTrue(List.of("live", "bootstrap", "unavailable").contains(status), status);
        table.createEntity(entity("r"));
        var copy = secondary.getTableClient(table.getTableName());
        assertEquals(List.of("r"), rowKeys(copy, new ListEntitiesOptions()));
        refused(403, "InsufficientAccountPermissions", () -> copy.createEntity(entity("new")));
    }
}
