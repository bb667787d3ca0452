package mayfly.spring;

import com.azure.spring.data.cosmos.core.mapping.Container;
import com.azure.spring.data.cosmos.core.mapping.PartitionKey;
import org.springframework.data.annotation.Id;

/** Without NON_NULL: a ttl that is null is sent. */
@Container(containerName = "sessions", timeToLive = 600)
public class WithNull {
    @Id
    public String id;

    @PartitionKey
    public String user = "ann";

    public Integer ttl;
}
