package io.nvrar;

import static com.tngtech.archunit.base.DescribedPredicate.describe;
import static com.tngtech.archunit.core.domain.JavaCall.Predicates.target;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.assignableTo;
import static com.tngtech.archunit.core.domain.properties.HasName.Predicates.name;
import static com.tngtech.archunit.core.domain.properties.HasOwner.Predicates.With.owner;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.fields;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import com.tngtech.archunit.core.domain.JavaCall;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.properties.HasOwner;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;
import io.nvrar.internal.AtomicFiles;
import io.nvrar.internal.channel.Handshake;
import io.nvrar.internal.group.Splitting;
import io.nvrar.internal.loading.NativeFiles;
import io.nvrar.internal.wire.GroupKeys;
import io.nvrar.internal.wire.TicketCodec;
import io.nvrar.standalone.GroupTicket;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.CopyOption;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.stream.Stream;

/**
 * The rooms of docs/concepts/architecture.md: who may use whom, and where a foreign library may
 * appear.
 */
@AnalyzeClasses(packages = "io.nvrar", importOptions = ImportOption.DoNotIncludeTests.class)
class ArchitectureTest {

  @ArchTest
  static final ArchRule theApiDependsOnNoOtherRoom =
      noClasses()
          .that()
          .resideInAPackage("io.nvrar")
          .should()
          .dependOnClassesThat()
          .resideInAPackage("io.nvrar.*..");

  /** What users import. All else is internal, and the documentation leaves it out. */
  @ArchTest
  static final ArchRule publicRoomsAreFew =
      classes()
          .should()
          .resideInAnyPackage(
              "io.nvrar",
              "io.nvrar.cuda",
              "io.nvrar.device",
              "io.nvrar.micrometer",
              "io.nvrar.ray",
              "io.nvrar.standalone",
              "io.nvrar.tuning",
              "io.nvrar.internal..");

  @ArchTest
  static final ArchRule layersCallDownwardsOnly =
      layeredArchitecture()
          .consideringOnlyDependenciesInLayers()
          .withOptionalLayers(true)
          .layer("ray")
          .definedBy("io.nvrar.ray..")
          .layer("standalone")
          .definedBy("io.nvrar.standalone..")
          .layer("group")
          .definedBy("io.nvrar.internal.group..")
          .layer("call")
          .definedBy("io.nvrar.internal.call..")
          .layer("channel")
          .definedBy("io.nvrar.internal.channel..")
          .layer("wire")
          .definedBy("io.nvrar.internal.wire..")
          .layer("flight")
          .definedBy("io.nvrar.internal.flight..")
          .layer("device")
          .definedBy("io.nvrar.device..", "io.nvrar.cuda..", "io.nvrar.internal.device..")
          .layer("tuning")
          .definedBy("io.nvrar.tuning..")
          .layer("binding")
          .definedBy("io.nvrar.internal.binding..")
          .layer("loading")
          .definedBy("io.nvrar.internal.loading..")
          .whereLayer("ray")
          .mayNotBeAccessedByAnyLayer()
          .whereLayer("standalone")
          .mayOnlyBeAccessedByLayers("ray")
          .whereLayer("group")
          .mayOnlyBeAccessedByLayers("standalone")
          .whereLayer("call")
          .mayOnlyBeAccessedByLayers("group")
          .whereLayer("channel")
          .mayOnlyBeAccessedByLayers("group", "standalone")
          .whereLayer("wire")
          .mayOnlyBeAccessedByLayers("channel", "call", "group", "standalone", "ray")
          .whereLayer("flight")
          .mayOnlyBeAccessedByLayers("group", "ray")
          .whereLayer("device")
          .mayOnlyBeAccessedByLayers("channel", "call", "group", "standalone", "ray")
          .whereLayer("tuning")
          .mayOnlyBeAccessedByLayers("ray")
          .whereLayer("binding")
          .mayOnlyBeAccessedByLayers(
              "device", "flight", "tuning", "call", "channel", "group", "wire", "standalone", "ray")
          .whereLayer("loading")
          .mayOnlyBeAccessedByLayers("binding", "device", "group");

  @ArchTest
  static final ArchRule packagesFormNoCycle =
      slices().matching("io.nvrar.(**)").should().beFreeOfCycles();

  @ArchTest
  static final ArchRule jnaStaysInternal =
      only("com.sun.jna..", "internal.binding", "internal.loading");

  @ArchTest
  static final ArchRule jcudaStaysInTheCudaDevice = only("jcuda..", "cuda", "internal.device.cuda");

  @ArchTest static final ArchRule rayStaysInRay = only("io.ray..", "ray");

  @ArchTest
  static final ArchRule kryoStaysOnTheWire = only("com.esotericsoftware..", "internal.wire");

  @ArchTest
  static final ArchRule gsonStaysWhereJsonIsReadAndWritten =
      noClasses()
          .that()
          .resideOutsideOfPackages("io.nvrar.tuning..", "io.nvrar.internal.flight..")
          .should()
          .dependOnClassesThat()
          .resideInAPackage("com.google.gson..");

  /** Users who want no metrics need not have it on their class path. */
  @ArchTest static final ArchRule micrometerStaysInItsRoom = only("io.micrometer..", "micrometer");

  @ArchTest
  static final ArchRule flightRecorderStaysInEvents = only("jdk.jfr..", "internal.events");

  /** Its root catches what the work throws, for nobody else would notice the end of a thread. */
  @ArchTest
  static final ArchRule threadsAreMadeByDaemon =
      noClasses()
          .that()
          .doNotHaveFullyQualifiedName("io.nvrar.internal.Daemon")
          .should()
          .callConstructorWhere(
              JavaCall.Predicates.target(
                  HasOwner.Predicates.With.owner(
                      JavaClass.Predicates.assignableTo(Thread.class)
                          .or(JavaClass.Predicates.assignableTo(java.util.Timer.class)))))
          .orShould()
          .dependOnClassesThat()
          .belongToAnyOf(
              Executors.class,
              ThreadPoolExecutor.class,
              ForkJoinPool.class,
              CompletableFuture.AsynchronousCompletionTask.class);

  @ArchTest
  static final ArchRule theLibraryHasNoCommandLine =
      noClasses().should().dependOnClassesThat().resideInAPackage("picocli..");

  /** Those of a group have to be kept from programs that the process starts. */
  @ArchTest
  static final ArchRule socketsAreMadeInOnePlace =
      noClasses()
          .that()
          .resideInAnyPackage("io.nvrar.internal..", "io.nvrar.standalone..")
          .and()
          .doNotHaveFullyQualifiedName("io.nvrar.internal.channel.Sockets")
          .should()
          .callMethodWhere(
              target(name("open"))
                  .and(
                      target(
                          owner(
                              assignableTo(SocketChannel.class)
                                  .or(assignableTo(ServerSocketChannel.class))))))
          .orShould()
          .callConstructorWhere(
              target(owner(assignableTo(Socket.class).or(assignableTo(ServerSocket.class)))));

  /** All others know a group by its spec. */
  @ArchTest
  static final ArchRule fewKeepASecret =
      fields()
          .that(
              describe(
                  "hold keys or a ticket",
                  field ->
                      field.getAllInvolvedRawTypes().stream()
                          .anyMatch(
                              type ->
                                  type.isEquivalentTo(GroupKeys.class)
                                      || type.isEquivalentTo(GroupTicket.class))))
          .should()
          .beDeclaredInClassesThat()
          .belongToAnyOf(GroupTicket.class, Handshake.class, Splitting.class);

  @ArchTest
  static final ArchRule onlyTicketsReadAndWriteTickets =
      noClasses()
          .that()
          .doNotBelongToAnyOf(GroupTicket.class, TicketCodec.class)
          .should()
          .callMethodWhere(target(owner(assignableTo(TicketCodec.class))))
          .orShould()
          .callMethod(GroupKeys.class, "secret");

  /** A second writer by temporary file and rename would forget links or permissions again. */
  @ArchTest
  static final ArchRule filesAreReplacedInOnePlace =
      noClasses()
          .that()
          .doNotBelongToAnyOf(AtomicFiles.class, NativeFiles.class)
          .should()
          .callMethod(Files.class, "move", Path.class, Path.class, CopyOption[].class);

  private static ArchRule only(String foreign, String... rooms) {
    return noClasses()
        .that()
        .resideOutsideOfPackages(
            Stream.of(rooms).map(room -> "io.nvrar." + room).toArray(String[]::new))
        .should()
        .dependOnClassesThat()
        .resideInAPackage(foreign);
  }
}
