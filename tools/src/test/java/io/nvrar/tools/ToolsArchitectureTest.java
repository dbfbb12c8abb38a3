package io.nvrar.tools;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;

/** The rooms of the command line: which of them may use which. */
@AnalyzeClasses(packages = "io.nvrar.tools", importOptions = ImportOption.DoNotIncludeTests.class)
class ToolsArchitectureTest {

  @ArchTest
  static final ArchRule packagesFormNoCycle =
      slices().matching("io.nvrar.tools.(**)").should().beFreeOfCycles();

  @ArchTest
  static final ArchRule jcudaStaysWhereGpusAreAsked =
      noClasses()
          .that()
          .resideOutsideOfPackages("io.nvrar.tools", "io.nvrar.tools.bench.measure")
          .should()
          .dependOnClassesThat()
          .resideInAPackage("jcuda..");
}
