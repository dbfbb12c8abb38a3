package io.nvrar.examples.llama.engine.cuda;

import static com.tngtech.archunit.library.Architectures.layeredArchitecture;

import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;

/** Who may use whom in the engine for GPUs. */
@AnalyzeClasses(
    packages = "io.nvrar.examples.llama",
    importOptions = ImportOption.DoNotIncludeTests.class)
class RoomsTest {
  private static final String ROOM = "io.nvrar.examples.llama.engine.cuda";

  @ArchTest
  static final ArchRule onlyTheEngineUsesItsRooms =
      layeredArchitecture()
          .consideringAllDependencies()
          .layer("callers")
          .definedBy("io.nvrar.examples.llama", "io.nvrar.examples.llama.bench")
          .layer("engine")
          .definedBy(ROOM)
          .layer("kernels")
          .definedBy(ROOM + ".kernels")
          .layer("loading")
          .definedBy(ROOM + ".loading")
          .layer("driver")
          .definedBy(ROOM + ".driver")
          .whereLayer("kernels")
          .mayOnlyBeAccessedByLayers("engine")
          .whereLayer("loading")
          .mayOnlyBeAccessedByLayers("engine")
          .whereLayer("driver")
          .mayOnlyBeAccessedByLayers("engine", "kernels", "loading")
          .whereLayer("engine")
          .mayOnlyBeAccessedByLayers("callers");
}
