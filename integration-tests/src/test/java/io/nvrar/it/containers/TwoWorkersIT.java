package io.nvrar.it.containers;

import java.util.List;

@DockerTest(workers = 2)
class TwoWorkersIT extends WorkersContract {

  @Override
  List<String> runs() {
    return List.of("[1, 1]", "[1, 2]", "[1, 3]", "[1, 4]", "[2, 4]", "[3, 4]", "[4, 4]");
  }
}
