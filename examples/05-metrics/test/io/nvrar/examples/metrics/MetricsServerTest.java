package io.nvrar.examples.metrics;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.io.IOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** The dashboard's queries find something in what a real member of a real group serves. */
class MetricsServerTest {
  private static final Path DASHBOARD = Path.of("..", "docs", "guides", "dashboard.json");
  private static final Pattern METRIC = Pattern.compile("\\bnvrar_[a-z_]+");

  private static CollectiveGroup work(GroupTicket ticket, int rank) throws InterruptedException {
    CollectiveGroup group = Groups.join(ticket, rank);
    try (DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 100)) {
      for (int i = 0; i < 10; i++) {
        if (rank == 1) {
          Thread.sleep(5);
        }
        group.allReduce(buffer);
      }
      group.barrier();
    }
    return group;
  }

  private static List<String> queries(JsonElement in) {
    List<String> found = new ArrayList<>();
    if (in.isJsonArray()) {
      JsonArray array = in.getAsJsonArray();
      array.forEach(element -> found.addAll(queries(element)));
    } else if (in.isJsonObject()) {
      in.getAsJsonObject()
          .entrySet()
          .forEach(
              entry -> {
                boolean isQuery = Set.of("expr", "query").contains(entry.getKey());
                boolean isKind =
                    in.getAsJsonObject().get("type") != null
                        && "datasource".equals(in.getAsJsonObject().get("type").getAsString());
                if (isQuery && !isKind && entry.getValue().isJsonPrimitive()) {
                  found.add(entry.getValue().getAsString());
                } else {
                  found.addAll(queries(entry.getValue()));
                }
              });
    }
    return found;
  }

  private static Set<String> metrics(String text) {
    return METRIC
        .matcher(text)
        .results()
        .map(m -> m.group())
        .collect(Collectors.toCollection(TreeSet::new));
  }

  @Test
  void everyQueryOfTheDashboardNamesAMetricThatIsServed() throws Exception {
    GroupConfig config = GroupConfig.builder().backend(Backend.CPU).build();
    GroupTicket ticket = Groups.createTicket("served", 2, config, "127.0.0.1");
    ExecutorService threads = Executors.newFixedThreadPool(2);
    try {
      Future<CollectiveGroup> peer = threads.submit(() -> work(ticket, 1));
      CollectiveGroup group = work(ticket, 0);
      URI page;
      HttpClient client = HttpClient.newHttpClient();
      try (MetricsServer server = MetricsServer.start(group, 0)) {
        page = URI.create("http://127.0.0.1:" + server.port() + "/metrics");
        String served = get(client, page);
        assertThat(served)
            .contains(
                "nvrar_calls_total{collective=\"allReduce\",group=\"served\",rank=\"0\",type=\"float32\"} 10.0")
            .contains(
                "nvrar_bytes_total{collective=\"allReduce\",group=\"served\",rank=\"0\",type=\"float32\"} 4000.0")
            .contains(
                "nvrar_calls_within_total{collective=\"allReduce\",group=\"served\",le=\"+Inf\",rank=\"0\"} 10.0");
        Set<String> names =
            served
                .lines()
                .filter(line -> line.startsWith("nvrar_"))
                .map(line -> line.substring(0, line.indexOf('{')))
                .collect(Collectors.toCollection(TreeSet::new));
        List<String> queries = queries(JsonParser.parseString(Files.readString(DASHBOARD)));
        assertThat(queries)
            .hasSizeGreaterThan(8)
            .allSatisfy(query -> assertThat(names).as(query).containsAll(metrics(query)))
            .allSatisfy(query -> assertThat(metrics(query)).as(query).isNotEmpty());
      }
      assertThatThrownBy(() -> get(client, page)).isInstanceOf(ConnectException.class);
      Future<?> closing = threads.submit(() -> group.close());
      peer.get().close();
      closing.get();
    } finally {
      threads.shutdownNow();
    }
  }

  @Test
  void clientsThatSendHalfARequestDoNotStopTheOthers() throws Exception {
    GroupConfig config = GroupConfig.builder().backend(Backend.CPU).build();
    GroupTicket ticket = Groups.createTicket("held", 1, config, "127.0.0.1");
    List<Socket> strangers = new ArrayList<>();
    try (CollectiveGroup group = Groups.join(ticket, 0);
        MetricsServer server = MetricsServer.start(group, 0)) {
      for (int i = 0; i < 8; i++) {
        Socket stranger = new Socket(InetAddress.getLoopbackAddress(), server.port());
        strangers.add(stranger);
        stranger.getOutputStream().write("GET /met".getBytes(StandardCharsets.US_ASCII));
      }
      URI page = URI.create("http://127.0.0.1:" + server.port() + "/metrics");
      assertThat(
              HttpClient.newHttpClient()
                  .send(
                      HttpRequest.newBuilder(page).timeout(Duration.ofSeconds(60)).build(),
                      BodyHandlers.ofString())
                  .body())
          .contains("nvrar_group_failed{");
    } finally {
      for (Socket stranger : strangers) {
        stranger.close();
      }
    }
  }

  private static String get(HttpClient client, URI page) throws IOException, InterruptedException {
    return client.send(HttpRequest.newBuilder(page).build(), BodyHandlers.ofString()).body();
  }
}
