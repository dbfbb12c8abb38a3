package io.nvrar.it.soak;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;

/** The rooms of the soak: which of them may use which. */
@AnalyzeClasses(packages = "io.nvrar.it.soak", importOptions = ImportOption.DoNotIncludeTests.class)
class SoakArchitectureTest {

  @ArchTest
  static final ArchRule packagesFormNoCycle =
      slices().matching("io.nvrar.it.(**)").should().beFreeOfCycles();

  @ArchTest
  static final ArchRule plansKnowNoProcess =
      noClasses()
          .that()
          .resideInAnyPackage("io.nvrar.it.soak.plan", "io.nvrar.it.soak.call")
          .should()
          .dependOnClassesThat()
          .resideInAnyPackage("io.nvrar.it.soak", "io.nvrar.it.soak.worker");

  @ArchTest
  static final ArchRule gpusAreAskedByTheLibraryOnly =
      noClasses().should().dependOnClassesThat().resideInAPackage("jcuda..");
}
