package io.nvrar.it;

import io.nvrar.it.cluster.RayTest;
import java.nio.file.Path;
import java.util.List;

/** On the CPU. */
@RayTest
class DecodeIT extends DecodeContract {

  @Override
  List<String> longDecode(Path directory) {
    return List.of(
        "--model",
        MODEL.toString(),
        "--prompt",
        "In the beginning",
        "--max-tokens",
        "480",
        "--ignore-eos");
  }
}
