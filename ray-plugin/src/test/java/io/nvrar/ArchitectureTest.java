package io.nvrar;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;

/** The rooms of docs/architecture.md: who may use whom, and where a foreign library may appear. */
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

  @ArchTest
  static final ArchRule layersCallDownwardsOnly =
      layeredArchitecture()
          .consideringOnlyDependenciesInLayers()
          .withOptionalLayers(true)
          .layer("ray")
          .definedBy("io.nvrar.ray..")
          .layer("bootstrap")
          .definedBy("io.nvrar.bootstrap..")
          .layer("flight")
          .definedBy("io.nvrar.flight..")
          .layer("device")
          .definedBy("io.nvrar.device..")
          .layer("tuning")
          .definedBy("io.nvrar.tuning..")
          .layer("internal")
          .definedBy("io.nvrar.internal..")
          .whereLayer("ray")
          .mayNotBeAccessedByAnyLayer()
          .whereLayer("bootstrap")
          .mayOnlyBeAccessedByLayers("ray")
          .whereLayer("flight")
          .mayOnlyBeAccessedByLayers("bootstrap")
          .whereLayer("device")
          .mayOnlyBeAccessedByLayers("bootstrap", "ray")
          .whereLayer("tuning")
          .mayOnlyBeAccessedByLayers("ray")
          .whereLayer("internal")
          .mayOnlyBeAccessedByLayers("device", "flight", "tuning", "bootstrap", "ray");

  @ArchTest
  static final ArchRule packagesFormNoCycle =
      slices().matching("io.nvrar.(**)").should().beFreeOfCycles();

  @ArchTest static final ArchRule jnaStaysInternal = only("internal", "com.sun.jna..");

  @ArchTest static final ArchRule jcudaStaysInTheCudaDevice = only("device.cuda", "jcuda..");

  @ArchTest static final ArchRule rayStaysInRay = only("ray", "io.ray..");

  @ArchTest
  static final ArchRule kryoStaysInBootstrap = only("bootstrap", "com.esotericsoftware..");

  @ArchTest
  static final ArchRule gsonStaysWhereJsonIsReadAndWritten =
      noClasses()
          .that()
          .resideOutsideOfPackages("io.nvrar.tuning..", "io.nvrar.flight..")
          .should()
          .dependOnClassesThat()
          .resideInAPackage("com.google.gson..");

  @ArchTest
  static final ArchRule theLibraryHasNoCommandLine =
      noClasses().should().dependOnClassesThat().resideInAPackage("picocli..");

  private static ArchRule only(String room, String foreign) {
    return noClasses()
        .that()
        .resideOutsideOfPackage("io.nvrar." + room + "..")
        .should()
        .dependOnClassesThat()
        .resideInAPackage(foreign)
        // Rooms that are not built yet have no class to check.
        .allowEmptyShould(true);
  }
}
