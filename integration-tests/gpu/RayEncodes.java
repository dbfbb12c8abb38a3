import io.ray.runtime.serializer.Serializer;
import java.util.List;

/** What Ray does with each argument of a task: it fails if Ray's jar lacks a class of that. */
final class RayEncodes {
  public static void main(String[] args) {
    List<String> argument = List.of("task");
    if (!argument.equals(Serializer.decode(Serializer.encode(argument).getLeft(), Object.class))) {
      throw new AssertionError("Ray does not decode what it encodes");
    }
  }
}
