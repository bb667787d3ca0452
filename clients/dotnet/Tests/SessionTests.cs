using System.Net;
using Microsoft.Azure.Cosmos;
using Xunit;

public class SessionTests
{
    [Fact]
    public async Task ASessionExpiresAfterAnHour()
    {
        await using var mayfly = await MayflyDb.Mayfly.StartAsync(new DateTimeOffset(2026, 1, 1, 0, 0, 0, TimeSpan.Zero));
        var handler = await mayfly.CreateHandlerAsync();
        using var client = new CosmosClient(mayfly.CosmosEndpoint, mayfly.CosmosKey, new CosmosClientOptions
        {
            ConnectionMode = ConnectionMode.Gateway,
            LimitToEndpoint = true,
            HttpClientFactory = () => new HttpClient(handler, disposeHandler: false),
        });
        Database shop = await client.CreateDatabaseAsync("shop");
        Container sessions = await shop.CreateContainerAsync(
            new ContainerProperties("sessions", "/userId") { DefaultTimeToLive = 3600 });
        await sessions.CreateItemAsync(new { id = "s1", userId = "u1" });

        await mayfly.Clock.AdvanceAsync(TimeSpan.FromSeconds(3599));
        await sessions.ReadItemAsync<object>("s1", new PartitionKey("u1"));
        await mayfly.Clock.AdvanceAsync(TimeSpan.FromSeconds(1));
        var gone = await Assert.ThrowsAsync<CosmosException>(
            () => sessions.ReadItemAsync<object>("s1", new PartitionKey("u1")));
        Assert.Equal(HttpStatusCode.NotFound, gone.StatusCode);
        Assert.Equal(["s1"], (await mayfly.ExpiredAsync()).Select(record => record.Id));
    }
}
