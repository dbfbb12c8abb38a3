package io.nvrar.it.containers;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** What a driver says and a test judges: a name and a value on a line. */
final class Facts {

  /** A line of facts begins so; Ray's own lines do not. */
  private static final String FACT = "fact ";

  private Facts() {}

  static void say(String name, Object fact) {
    System.out.println(FACT + name + "=" + fact);
  }

  /** All facts of each name, in their order. */
  static Map<String, List<String>> of(String output) {
    return output
        .lines()
        .filter(line -> line.startsWith(FACT))
        .map(line -> line.substring(FACT.length()).split("=", 2))
        .collect(
            Collectors.groupingBy(
                fact -> fact[0], Collectors.mapping(fact -> fact[1], Collectors.toList())));
  }
}
