package io.nvrar.examples.training;

import static org.assertj.core.api.Assertions.assertThat;

import java.awt.image.BufferedImage;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import javax.imageio.ImageIO;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LossCurveTest {
  @Test
  void theTableHasEachLossExactly(@TempDir Path directory) throws IOException {
    Path file = directory.resolve("losses.csv");
    LossCurve.writeTable(new float[] {4.25f, 0.1f}, file);
    assertThat(Files.readString(file)).isEqualTo("step,loss\n1,4.25\n2,0.1\n");
  }

  @Test
  void thePictureOfAnyNumberOfStepsIsDrawn(@TempDir Path directory) throws IOException {
    for (int steps : new int[] {1, 399, 1000}) {
      Path file = directory.resolve("curve.png");
      LossCurve.draw(new float[steps], 0.5, file);
      BufferedImage image = ImageIO.read(file.toFile());
      assertThat(image.getWidth()).isEqualTo(760);
    }
  }

  @Test
  void aMeanIsOfTheLossesThatThereAre() {
    float[] losses = {1, 2, 6};
    assertThat(LossCurve.mean(losses, -5, 3)).isEqualTo(3);
    assertThat(LossCurve.mean(losses, 1, 3)).isEqualTo(4);
    assertThat(LossCurve.mean(new float[0], -5, 0)).isNaN();
  }
}
