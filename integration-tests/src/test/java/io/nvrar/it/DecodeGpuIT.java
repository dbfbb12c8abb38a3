package io.nvrar.it;

import io.nvrar.it.cluster.GpuTest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** On GPUs, where nobody asks for them. */
@GpuTest
class DecodeGpuIT extends DecodeContract {

  // The model that is shipped is at the end of its context in a tenth of a second here.
  @Override
  List<String> longDecode(Path directory) throws IOException {
    Path config = directory.resolve("config.json");
    Files.writeString(
        config,
        """
        {
          "architectures": ["LlamaForCausalLM"],
          "model_type": "llama",
          "hidden_size": 1024,
          "head_dim": 64,
          "intermediate_size": 2048,
          "num_hidden_layers": 16,
          "num_attention_heads": 16,
          "num_key_value_heads": 8,
          "vocab_size": 4096,
          "max_position_embeddings": 32768
        }
        """);
    return List.of(
        "--random-weights",
        config.toString(),
        "--prompt-ids",
        "1,2,3",
        "--max-tokens",
        "30000",
        "--ignore-eos");
  }
}
