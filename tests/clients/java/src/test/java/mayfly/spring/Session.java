package mayfly.spring;

import com.azure.spring.data.cosmos.core.mapping.Container;
import com.azure.spring.data.cosmos.core.mapping.PartitionKey;
import com.fasterxml.jackson.annotation.JsonInclude;
import org.springframework.data.annotation.Id;
import org.springframework.data.annotation.Version;

/** A session lives for ten minutes after it was last saved, unless it has a ttl of its own. */
@Container(containerName = "sessions", timeToLive = 600)
public class Session {
    @Id
    public String id;

    @PartitionKey
    public String user;

    /** Seconds; null: the container's default counts. A null that is sent is refused. */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public Integer ttl;

    @Version
    public String _etag;

    public Session() {}

    public Session(String id, String user, Integer ttl) {
        this.id = id;
        this.user = user;
        this.ttl = ttl;
    }
}
