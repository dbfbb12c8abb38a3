package io.nvrar.internal.binding;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Algorithm;
import io.nvrar.AllReduceFusion;
import io.nvrar.Collective;
import io.nvrar.CollectiveStatistics;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.LinkSecurity;
import io.nvrar.MemoryProvider;
import io.nvrar.ReduceOp;
import io.nvrar.TopK;
import io.nvrar.TuningTable;
import io.nvrar.internal.device.host.HostDevice;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Every struct and code in Java is that of {@code nvrar.h}. */
class NativeStructsTest {
  private static final HeaderStructs HEADER = HeaderStructs.read();

  private final List<DeviceBuffer> buffers = new ArrayList<>();

  @AfterEach
  void close() {
    buffers.forEach(DeviceBuffer::close);
  }

  private DeviceBuffer buffer(DataType type, long count) {
    DeviceBuffer buffer = HostDevice.instance().allocate(type, count);
    buffers.add(buffer);
    return buffer;
  }

  private static ByteBuffer struct(byte[] bytes) {
    return ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder());
  }

  @Test
  void theCodesAreThoseOfTheHeader() {
    for (DataType type : DataType.values()) {
      assertThat(type.code()).isEqualTo(HEADER.constant("NVRAR_" + type));
    }
    for (ReduceOp op : ReduceOp.values()) {
      assertThat(op.code()).isEqualTo(HEADER.constant("NVRAR_" + op));
    }
    for (Collective collective : Collective.values()) {
      assertThat(collective.code()).isEqualTo(HEADER.constant("NVRAR_" + collective));
    }
    for (Algorithm algorithm : Algorithm.values()) {
      assertThat(algorithm.code()).isEqualTo(HEADER.constant("NVRAR_ALGORITHM_" + algorithm));
    }
    for (AllReduceFusion.Form form : AllReduceFusion.Form.values()) {
      assertThat(form.code()).isEqualTo(HEADER.constant("NVRAR_FUSION_" + form));
    }
    for (LinkSecurity security : LinkSecurity.values()) {
      assertThat(security.code()).isEqualTo(HEADER.constant("NVRAR_LINK_" + security));
    }
    for (MemoryProvider memory : MemoryProvider.values()) {
      assertThat(memory.code()).isEqualTo(HEADER.constant("NVRAR_MEMORY_" + memory));
    }
    assertThat(NvrarBinding.ABI_VERSION).isEqualTo(HEADER.constant("NVRAR_ABI_VERSION"));
    assertThat(NvrarBinding.UNIQUE_ID_BYTES).isEqualTo(HEADER.constant("NVRAR_UNIQUE_ID_BYTES"));
    assertThat(NvrarBinding.DESCRIPTOR_BYTES).isEqualTo(HEADER.constant("NVRAR_DESCRIPTOR_BYTES"));
    assertThat(NvrarBinding.FLIGHT_RECORDS).isEqualTo(HEADER.constant("NVRAR_FLIGHT_RECORDS"));
    assertThat(Links.SECRET_BYTES).isEqualTo(HEADER.constant("NVRAR_LINK_SECRET_BYTES"));
    assertThat(TopK.MAX_K).isEqualTo(HEADER.constant("NVRAR_MAX_TOP_K"));
    assertThat(CollectiveStatistics.buckets()).isEqualTo(HEADER.constant("NVRAR_DURATION_BUCKETS"));
  }

  @Test
  void aConfigIsWrittenFieldByField() {
    GroupConfig config =
        GroupConfig.builder()
            .gpusPerNode(3)
            .ringBytes(1 << 20)
            .timeout(Duration.ofSeconds(11))
            .joinTimeout(Duration.ofSeconds(16))
            .cuda(
                cuda ->
                    cuda.memory(MemoryProvider.IPC)
                        .concurrentGroups(5)
                        .exclusive(true)
                        .arenaBytes(1 << 24)
                        .programmaticLaunch(true))
            .links(
                links ->
                    links
                        .ports(7001, 7009)
                        .security(LinkSecurity.ENCRYPTED)
                        .threads(4)
                        .spin(Duration.ofMillis(9)))
            .build();
    byte[] secret = new byte[Links.SECRET_BYTES];
    for (int i = 0; i < secret.length; i++) {
      secret[i] = (byte) (100 + i);
    }
    byte[] bytes =
        NativeStructs.config(2, 6, 12, 1, true, new Links("10.0.0.9", true, secret), config);
    ByteBuffer in = struct(bytes);
    HeaderStructs.Struct at = HEADER.of("nvrar_config");
    assertThat(bytes).hasSize(at.bytes());
    assertThat(at.getInt(in, "size")).isEqualTo(at.bytes());
    assertThat(at.getInt(in, "backend")).isEqualTo(2);
    assertThat(at.getInt(in, "rank")).isEqualTo(6);
    assertThat(at.getInt(in, "world_size")).isEqualTo(12);
    assertThat(at.getInt(in, "device")).isEqualTo(1);
    assertThat(at.getInt(in, "ranks_per_node")).isEqualTo(3);
    assertThat(at.getLong(in, "ring_bytes")).isEqualTo(1 << 20);
    assertThat(at.getLong(in, "timeout_ns")).isEqualTo(11_000_000_000L);
    assertThat(at.getInt(in, "memory")).isEqualTo(HEADER.constant("NVRAR_MEMORY_IPC"));
    assertThat(at.getInt(in, "concurrent_groups")).isEqualTo(5);
    assertThat(at.getInt(in, "shared_devices")).isEqualTo(1);
    assertThat(at.getInt(in, "exclusive")).isEqualTo(1);
    assertThat(at.getLong(in, "arena_bytes")).isEqualTo(1 << 24);
    assertThat(at.getLong(in, "join_timeout_ns")).isEqualTo(12_000_000_000L);
    assertThat(at.getInt(in, "programmatic_launch")).isEqualTo(1);
    assertThat(at.getInt(in, "reserved")).isZero();
    assertThat(text(in, at.offset("link_address"))).isEqualTo("10.0.0.9");
    assertThat(in.getShort(at.offset("link_port_first"))).isEqualTo((short) 7001);
    assertThat(in.getShort(at.offset("link_port_last"))).isEqualTo((short) 7009);
    assertThat(at.getInt(in, "links")).isEqualTo(HEADER.constant("NVRAR_LINKS_BETWEEN_NODES"));
    assertThat(at.getInt(in, "link_security")).isEqualTo(HEADER.constant("NVRAR_LINK_ENCRYPTED"));
    assertThat(at.getInt(in, "link_threads")).isEqualTo(4);
    int secretAt = at.offset("link_secret");
    assertThat(Arrays.copyOfRange(bytes, secretAt, secretAt + secret.length)).isEqualTo(secret);
    assertThat(at.getLong(in, "link_spin_ns")).isEqualTo(9_000_000);
    assertThat(at.offsets()).as("fields that this test knows").hasSize(24);
  }

  private static String text(ByteBuffer in, int at) {
    int end = at;
    while (in.get(end) != 0) {
      end++;
    }
    byte[] bytes = new byte[end - at];
    in.get(at, bytes);
    return new String(bytes, StandardCharsets.US_ASCII);
  }

  @Test
  void aTuningRuleIsWrittenFieldByField() {
    TuningTable.Rule rule =
        new TuningTable.Rule(
            DataType.BFLOAT16,
            8,
            4,
            4096,
            Algorithm.AUTO,
            TuningTable.Collective.ALL_GATHER,
            "sm_90",
            new TuningTable.LaunchShape(16, 512, 0));
    byte[] bytes = NativeStructs.rules(List.of(rule, rule));
    HeaderStructs.Struct at = HEADER.of("nvrar_tuning_rule");
    assertThat(bytes).hasSize(2 * at.bytes());
    ByteBuffer in = struct(Arrays.copyOfRange(bytes, at.bytes(), 2 * at.bytes()));
    assertThat(at.getInt(in, "size")).isEqualTo(at.bytes());
    assertThat(at.getInt(in, "data_type")).isEqualTo(DataType.BFLOAT16.code());
    assertThat(at.getInt(in, "world_size")).isEqualTo(8);
    assertThat(at.getInt(in, "ranks_per_node")).isEqualTo(4);
    assertThat(at.getInt(in, "algorithm")).isEqualTo(Algorithm.AUTO.code());
    assertThat(at.getInt(in, "collective")).isEqualTo(HEADER.constant("NVRAR_ALL_GATHER"));
    assertThat(at.getLong(in, "bytes_max")).isEqualTo(4096);
    assertThat(at.getInt(in, "architecture")).isEqualTo(90);
    assertThat(at.getInt(in, "blocks")).isEqualTo(16);
    assertThat(at.getInt(in, "threads")).isEqualTo(512);
    assertThat(at.getInt(in, "tiles")).isZero();
    assertThat(at.offsets()).hasSize(11);
  }

  @Test
  void transfersAreWrittenFieldByField() {
    DeviceBuffer sent = buffer(DataType.INT8, 5);
    DeviceBuffer received = buffer(DataType.FLOAT64, 3);
    HeaderStructs.Struct at = HEADER.of("nvrar_transfer");
    assertThat(NativeStructs.TRANSFER_BYTES).isEqualTo(at.bytes());
    byte[] array = new byte[2 * at.bytes()];
    NativeStructs.putTransfers(struct(array), new Call().sendReceive(sent, 4, received, 7));
    ByteBuffer one = struct(Arrays.copyOf(array, at.bytes()));
    ByteBuffer two = struct(Arrays.copyOfRange(array, at.bytes(), 2 * at.bytes()));
    checkTransfer(one, "NVRAR_SEND", 4, sent);
    checkTransfer(two, "NVRAR_RECV", 7, received);
    assertThat(at.offsets()).hasSize(6);
  }

  private static void checkTransfer(ByteBuffer in, String kind, int peer, DeviceBuffer buffer) {
    HeaderStructs.Struct at = HEADER.of("nvrar_transfer");
    assertThat(at.getInt(in, "size")).isEqualTo(at.bytes());
    assertThat(at.getInt(in, "kind")).isEqualTo(HEADER.constant(kind));
    assertThat(at.getInt(in, "peer")).isEqualTo(peer);
    assertThat(at.getInt(in, "data_type")).isEqualTo(buffer.dataType().code());
    assertThat(at.getLong(in, "address")).isEqualTo(buffer.address());
    assertThat(at.getLong(in, "count")).isEqualTo(buffer.count());
  }

  @Test
  void aFusedAllReduceIsWrittenFieldByField() {
    DeviceBuffer input = buffer(DataType.FLOAT32, 24);
    DeviceBuffer residual = buffer(DataType.FLOAT32, 24);
    DeviceBuffer residualOut = buffer(DataType.FLOAT32, 24);
    DeviceBuffer weight = buffer(DataType.FLOAT32, 8);
    DeviceBuffer output = buffer(DataType.FLOAT32, 24);
    DeviceBuffer squares = buffer(DataType.FLOAT32, 3);
    HeaderStructs.Struct at = HEADER.of("nvrar_fused_all_reduce");
    assertThat(NativeStructs.FUSION_BYTES).isEqualTo(at.bytes());
    AllReduceFusion norm =
        AllReduceFusion.residualRmsNorm(residual, residualOut, weight, 0.125f, output);
    ByteBuffer in = struct(at.make());
    NativeStructs.putFusion(in, new Call().allReduce(input, norm, Algorithm.TWO_SHOT));
    assertThat(at.getInt(in, "size")).isEqualTo(at.bytes());
    assertThat(at.getInt(in, "form")).isEqualTo(HEADER.constant("NVRAR_FUSION_RMS_NORM"));
    assertThat(at.getInt(in, "data_type")).isEqualTo(DataType.FLOAT32.code());
    assertThat(at.getInt(in, "algorithm")).isEqualTo(Algorithm.TWO_SHOT.code());
    assertThat(at.getInt(in, "rows")).isEqualTo(3);
    assertThat(at.getInt(in, "hidden")).isEqualTo(8);
    assertThat(in.getFloat(at.offset("eps"))).isEqualTo(0.125f);
    assertThat(at.getInt(in, "reserved")).isZero();
    assertThat(at.getLong(in, "input")).isEqualTo(input.address());
    assertThat(at.getLong(in, "residual")).isEqualTo(residual.address());
    assertThat(at.getLong(in, "weight")).isEqualTo(weight.address());
    assertThat(at.getLong(in, "residual_out")).isEqualTo(residualOut.address());
    assertThat(at.getLong(in, "output")).isEqualTo(output.address());
    assertThat(at.getLong(in, "squares")).isZero();
    AllReduceFusion fold =
        AllReduceFusion.residualRmsNormFold(residual, residualOut, weight, output, squares);
    NativeStructs.putFusion(in, new Call().allReduce(input, fold, Algorithm.AUTO));
    assertThat(at.getLong(in, "squares")).isEqualTo(squares.address());
    assertThat(at.offsets()).hasSize(14);
  }

  @Test
  void aTopKIsWrittenFieldByField() {
    DeviceBuffer input = buffer(DataType.FLOAT32, 30);
    DeviceBuffer values = buffer(DataType.FLOAT32, 6);
    DeviceBuffer indices = buffer(DataType.INT32, 6);
    HeaderStructs.Struct at = HEADER.of("nvrar_selection");
    assertThat(NativeStructs.TOP_K_BYTES).isEqualTo(at.bytes());
    ByteBuffer in = struct(at.make());
    NativeStructs.putTopK(in, new Call().topK(input, TopK.of(2, 10, 50, values, indices)));
    assertThat(at.getInt(in, "size")).isEqualTo(at.bytes());
    assertThat(at.getInt(in, "data_type")).isEqualTo(DataType.FLOAT32.code());
    assertThat(at.getInt(in, "rows")).isEqualTo(3);
    assertThat(at.getInt(in, "k")).isEqualTo(2);
    assertThat(at.getLong(in, "columns")).isEqualTo(10);
    assertThat(at.getLong(in, "first_index")).isEqualTo(50);
    assertThat(at.getLong(in, "input")).isEqualTo(input.address());
    assertThat(at.getLong(in, "values")).isEqualTo(values.address());
    assertThat(at.getLong(in, "indices")).isEqualTo(indices.address());
    assertThat(at.offsets()).hasSize(9);
  }

  @Test
  void aCallIsReadFieldByField() {
    HeaderStructs.Struct at = HEADER.of("nvrar_call");
    assertThat(NativeStructs.CALL_BYTES).isEqualTo(at.bytes());
    byte[] bytes = at.make();
    ByteBuffer out = struct(bytes);
    out.putInt(at.offset("state"), HEADER.constant("NVRAR_CALL_QUEUED"))
        .putLong(at.offset("sequence"), 41)
        .putLong(at.offset("count"), 96)
        .putInt(at.offset("collective"), Collective.ALL_REDUCE.code())
        .putInt(at.offset("data_type"), DataType.FLOAT16.code())
        .putInt(at.offset("op"), ReduceOp.SUM.code())
        .putInt(at.offset("root"), -1)
        .putInt(at.offset("algorithm"), Algorithm.ONE_SHOT.code())
        .putInt(at.offset("transfers"), 0)
        .putLong(at.offset("launches"), 2)
        .putLong(at.offset("group_sequence"), 43)
        .putLong(at.offset("begin_ns"), 1001)
        .putLong(at.offset("end_ns"), 1002)
        .putInt(at.offset("fusion"), AllReduceFusion.Form.BIAS.code())
        .putInt(at.offset("hidden"), 32);
    CallRecord call = NativeStructs.call(bytes);
    assertThat(call)
        .isEqualTo(
            new CallRecord(
                CallRecord.State.QUEUED,
                Collective.ALL_REDUCE.code(),
                41,
                "allReduce #41 float16[3 x 32] SUM + bias (one-shot, 2 launches)",
                Algorithm.ONE_SHOT.code(),
                2,
                43,
                -1,
                0,
                1001,
                1002));
    out.putInt(at.offset("collective"), HEADER.constant("NVRAR_RECV"))
        .putInt(at.offset("root"), 6)
        .putInt(at.offset("transfers"), 5);
    assertThat(NativeStructs.call(bytes))
        .returns(6, CallRecord::peer)
        .returns(5, CallRecord::transfers)
        .returns(true, CallRecord::isTransfer);
    for (CallRecord.State state : CallRecord.State.values()) {
      if (state != CallRecord.State.UNKNOWN) {
        out.putInt(at.offset("state"), HEADER.constant("NVRAR_CALL_" + state));
        assertThat(NativeStructs.call(bytes).state()).isEqualTo(state);
      }
    }
    assertThat(at.offsets()).hasSize(16);
  }

  @Test
  void statisticsAndWaitsAreReadFieldByField() {
    HeaderStructs.Struct at = HEADER.of("nvrar_statistics");
    assertThat(NativeStructs.STATISTICS_BYTES).isEqualTo(at.bytes());
    int types = HEADER.constant("NVRAR_STATISTICS_TYPES");
    int buckets = HEADER.constant("NVRAR_DURATION_BUCKETS");
    byte[] bytes = at.make();
    ByteBuffer out = struct(bytes);
    out.putInt(at.offset("collective"), Collective.REDUCE.code())
        .putLong(at.offset("failed"), 3)
        .putLong(at.offset("timed_ns"), 77);
    long[] calls = LongStream.range(100, 100 + types).toArray();
    long[] elements = LongStream.range(200, 200 + types).toArray();
    long[] durations = LongStream.range(300, 300 + buckets).toArray();
    put(out, at.offset("calls"), calls);
    put(out, at.offset("elements"), elements);
    put(out, at.offset("durations"), durations);
    assertThat(NativeStructs.statistics(Collective.REDUCE, bytes))
        .usingRecursiveComparison()
        .isEqualTo(new CollectiveStatistics(Collective.REDUCE, 3, 77, calls, elements, durations));
    assertThat(at.offsets()).hasSize(7);

    HeaderStructs.Struct wait = HEADER.of("nvrar_wait");
    assertThat(NativeStructs.WAIT_BYTES).isEqualTo(wait.bytes());
    byte[] waitBytes = wait.make();
    ByteBuffer waits = struct(waitBytes);
    waits.putLong(wait.offset("count"), 8).putLong(wait.offset("total_ns"), 9);
    assertThat(NativeStructs.waits(waitBytes)).isEqualTo(8);
    assertThat(NativeStructs.waitNanos(waitBytes)).isEqualTo(9);
  }

  private static void put(ByteBuffer out, int at, long[] values) {
    for (int i = 0; i < values.length; i++) {
      out.putLong(at + i * Long.BYTES, values[i]);
    }
  }

  @Test
  void theRanksOfAFailureAreReadFieldByField() {
    HeaderStructs.Struct at = HEADER.of("nvrar_failure");
    assertThat(NativeStructs.FAILURE_BYTES).isEqualTo(at.bytes());
    byte[] bytes = at.make();
    ByteBuffer out = struct(bytes);
    out.putLong(at.offset("sequence"), -1)
        .putLong(at.offset("missing"), 1L << 5)
        .putLong(at.offset("missing") + Long.BYTES, 1L << 6)
        .putInt(at.offset("origin"), 17);
    for (int word = 0; word < 6; word++) {
      out.putLong(at.offset("missing_from_128") + word * Long.BYTES, 1L << word);
    }
    assertThat(NativeStructs.origin(bytes)).isEqualTo(17);
    assertThat(NativeStructs.missingRanks(bytes))
        .containsExactly(
            IntStream.concat(
                    IntStream.of(5, 64 + 6),
                    IntStream.range(0, 6).map(word -> 128 + 64 * word + word))
                .toArray());
    assertThat(at.offsets()).hasSize(7);
  }

  @Test
  void aLinkIsReadFieldByField() {
    HeaderStructs.Struct at = HEADER.of("nvrar_link");
    assertThat(NativeStructs.LINK_BYTES).isEqualTo(at.bytes());
    byte[] bytes = at.make();
    ByteBuffer out = struct(bytes);
    out.put(at.offset("local"), "10.0.0.1:1".getBytes(StandardCharsets.US_ASCII))
        .put(at.offset("remote"), "10.0.0.2:2".getBytes(StandardCharsets.US_ASCII))
        .putLong(at.offset("asked"), 12)
        .putLong(at.offset("answered"), 11);
    assertThat(NativeStructs.link(bytes)).as("no link").isNull();
    for (String state : List.of("OPEN", "CLOSED", "BROKEN")) {
      out.putInt(at.offset("state"), HEADER.constant("NVRAR_LINK_" + state));
      assertThat(NativeStructs.link(bytes))
          .isEqualTo("10.0.0.1:1 to 10.0.0.2:2, " + state.toLowerCase(Locale.ROOT));
    }
    assertThat(NativeStructs.asked(bytes)).isEqualTo(12);
    out.putInt(at.offset("state"), HEADER.constant("NVRAR_LINK_OPEN"));
    assertThat(NativeStructs.hasAnsweredAfter(bytes, 10)).isTrue();
    assertThat(NativeStructs.hasAnsweredAfter(bytes, 11)).isFalse();
    assertThat(at.offsets()).hasSize(6);
  }
}
