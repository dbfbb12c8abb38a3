rootProject.name = "consumer"
