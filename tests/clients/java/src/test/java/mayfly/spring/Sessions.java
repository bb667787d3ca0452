package mayfly.spring;

import com.azure.spring.data.cosmos.repository.CosmosRepository;
import com.azure.spring.data.cosmos.repository.Query;
import java.util.List;
import org.springframework.data.repository.query.Param;

public interface Sessions extends CosmosRepository<Session, String> {
    List<Session> findByUserOrderById(String user);

    long countByUser(String user);

    @Query("SELECT * FROM c WHERE IS_DEFINED(c.ttl) AND c.ttl >= @least")
    List<Session> livingFor(@Param("least") int least);
}
