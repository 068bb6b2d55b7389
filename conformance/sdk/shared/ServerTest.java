import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.UUID;

/** How the tests reach the server, and what they call things there. */
abstract class ServerTest {
    static final String ENDPOINT = System.getenv("TEPUI_ENDPOINT");
    static final String SECONDARY = ENDPOINT + "-secondary";
    static final String ACCOUNT = "devstoreaccount1";
    static final String KEY =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    static final String WRONG_KEY =
        "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmc=";

    static String uniqueName() {
        return "sdk" + UUID.randomUUID().toString().replace("-", "").substring(0, 20);
    }

    static OffsetDateTime inMinutes(int minutes) {
        return OffsetDateTime.now(ZoneOffset.UTC).plusMinutes(minutes);
    }
}
