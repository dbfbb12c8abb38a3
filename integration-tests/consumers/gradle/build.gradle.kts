plugins {
    application
}

// The program of ../maven.
sourceSets.main { java.srcDir("../maven/src/main/java") }

repositories {
    maven { url = uri(property("nvrarRepository")!!) }
    mavenCentral()
}

dependencies {
    val nvrar = property("nvrarVersion")
    implementation(platform("io.nvrar:ray-nvrar-bom:$nvrar"))
    implementation("io.nvrar:ray-nvrar")
    // A classifier needs the version beside it.
    runtimeOnly("io.nvrar:ray-nvrar-native:$nvrar:${property("nvrarClassifier")}")
}

application {
    mainClass.set("consumer.AllReduce")
}
