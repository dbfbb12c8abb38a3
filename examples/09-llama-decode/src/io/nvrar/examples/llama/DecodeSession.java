package io.nvrar.examples.llama;

import io.nvrar.Backend;
import io.nvrar.GroupConfig;
import io.nvrar.examples.llama.bench.BenchCell;
import io.nvrar.examples.llama.bench.RankTimes;
import io.nvrar.examples.llama.engine.cuda.StepTrace;
import io.nvrar.examples.llama.generate.DecodeRequest;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.ray.RayActorGroup;
import io.nvrar.ray.RayCollectiveGroup;
import io.nvrar.ray.RayCollectives;
import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import io.ray.api.WaitResult;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongConsumer;

/** The driver's side of a model that is spread over Ray actors. Closing it ends the actors. */
final class DecodeSession implements AutoCloseable {
  private static final String GROUP = "llama";
  private static final int CHECK_MILLIS = 5000;

  /** Of a member; between nodes. */
  private static final int LINK_THREADS = 4;

  private final ActorPlaces places;
  private final RayActorGroup<LlamaActor> actors;
  private final RayCollectiveGroup group;

  /** Receives tokens in the order in which they were generated. */
  interface TokenListener {
    void onToken(int sequence, int token);
  }

  private DecodeSession(
      ActorPlaces places, RayActorGroup<LlamaActor> actors, RayCollectiveGroup group) {
    this.places = places;
    this.actors = actors;
    this.group = group;
  }

  /**
   * Starts actors in the cluster that this driver is connected to, and makes them a group.
   *
   * @param places where the actors are to be
   * @param heap the largest heap of each, as {@code -Xmx} takes it
   * @param request what they are to load later
   * @throws ModelException if they are on GPUs that cannot decode that
   */
  static DecodeSession open(ActorPlaces places, String heap, LoadRequest request) {
    RayActorGroup<LlamaActor> actors = places.actors().heap(heap).create(places.ranks());
    try {
      RayCollectiveGroup group =
          RayCollectives.createGroup(GROUP, actors.handles(), groupConfig(places, actors));
      DecodeSession session = new DecodeSession(places, actors, group);
      try {
        session.requireThatGpusTake(request);
        session.requireThatHostsHold(request);
        return session;
      } catch (RuntimeException | Error e) {
        try (group) {
          throw e;
        }
      }
    } catch (RuntimeException | Error e) {
      try (actors) {
        throw e;
      }
    }
  }

  private void requireThatGpusTake(LoadRequest request) {
    if (places.onGpus()) {
      for (String problem : getAll(actors.callAll(LlamaActor::modelProblem, request, GROUP))) {
        if (!problem.isEmpty()) {
          throw new ModelException(problem);
        }
      }
    }
  }

  private void requireThatHostsHold(LoadRequest request) {
    if (!places.onGpus()) {
      LlamaConfig config = request.model().config();
      List<Long> needs = new ArrayList<>();
      for (int rank = 0; rank < places.ranks(); rank++) {
        needs.add(ActorHeap.weightsAndCache(config, rank, places.ranks(), request.capacities()));
      }
      String problem = HostMemory.problem(needs, getAll(actors.callAll(LlamaActor::hostMemory)));
      if (!problem.isEmpty()) {
        throw new ModelException(problem);
      }
    }
  }

  private static GroupConfig groupConfig(ActorPlaces places, RayActorGroup<LlamaActor> actors) {
    GroupConfig.Builder config = GroupConfig.builder().backend(Backend.CPU);
    if (!places.onGpus()) {
      return config.build();
    }
    for (String problem : Ray.get(actors.callAll(LlamaActor::gpuProblem))) {
      if (!problem.isEmpty()) {
        throw new ModelException("The backend cuda is not available: " + problem + ".");
      }
    }
    boolean programmatic =
        Ray.get(actors.callAll(LlamaActor::takesProgrammaticLaunch)).stream().allMatch(yes -> yes);
    // Nothing else runs on the actors' GPUs, and the engine's kernels keep the rule of programmatic
    // launch. A host of GPUs has cores for the threads of its links.
    return config
        .backend(Backend.CUDA)
        .cuda(cuda -> cuda.exclusive(true).programmaticLaunch(programmatic))
        .links(links -> links.threads(LINK_THREADS))
        .build();
  }

  /** Where the actors are. */
  ActorPlaces places() {
    return places;
  }

  /**
   * Loads the weights on all ranks.
   *
   * @param progress receives the number of bytes that all ranks together have read
   */
  void load(LoadRequest request, LongConsumer progress) {
    getAll(actors.callAll(LlamaActor::load, request, GROUP));
    boolean done;
    do {
      long bytes = 0;
      done = true;
      for (long loaded : getAll(actors.callAll(LlamaActor::loaded))) {
        done &= loaded < 0;
        bytes += loaded < 0 ? -1 - loaded : loaded;
      }
      progress.accept(bytes);
    } while (!done);
  }

  /** Decodes a request; returns when all ranks are done. */
  void decode(DecodeRequest request, TokenListener listener) {
    getAll(actors.callAll(LlamaActor::start, request));
    List<ActorHandle<LlamaActor>> handles = new ArrayList<>(actors.handles());
    List<ObjectRef<int[]>> polls = new ArrayList<>(actors.callAll(LlamaActor::poll));
    while (!polls.isEmpty()) {
      WaitResult<int[]> answers = Ray.wait(polls, 1, CHECK_MILLIS);
      for (ObjectRef<int[]> answer : answers.getReady()) {
        int place = polls.indexOf(answer);
        int[] taken = get(answer);
        for (int i = 1; i < taken.length; i += 2) {
          listener.onToken(taken[i], taken[i + 1]);
        }
        if (taken[0] == 1) {
          polls.remove(place);
          handles.remove(place);
        } else {
          polls.set(place, handles.get(place).task(LlamaActor::poll).remote());
        }
      }
    }
  }

  /** The next row of logits that rank 0 has kept, little-endian float32. */
  byte[] nextLogits() {
    return get(actors.handles().get(0).task(LlamaActor::takeLogits).remote());
  }

  /** Whether the fast kernels are used, which all ranks decide alike. */
  boolean isFast() {
    return get(actors.handles().get(0).task(LlamaActor::isFast).remote());
  }

  /** The model of the first rank's GPU. */
  String gpuModel() {
    return get(actors.handles().get(0).task(LlamaActor::gpuModel, GROUP).remote());
  }

  /** How many bytes of its memory the slowest rank's GPU reads in a second. */
  double readBandwidth() {
    return getAll(actors.callAll(LlamaActor::readBandwidth, GROUP)).stream()
        .mapToDouble(Double::doubleValue)
        .min()
        .orElseThrow();
  }

  /** Measures decode steps with the all-reduces of NCCL; returns what each rank has measured. */
  List<RankTimes> measureWithNccl(BenchCell cell, String library) {
    return getAll(actors.callAll(LlamaActor::measureWithNccl, cell, library));
  }

  /** Measures decode steps; returns what each rank has measured. */
  List<RankTimes> measure(BenchCell cell) {
    return getAll(actors.callAll(LlamaActor::measure, cell));
  }

  /** When the kernels of a step end, on each rank. */
  List<StepTrace> trace(BenchCell cell) {
    return getAll(actors.callAll(LlamaActor::trace, cell));
  }

  /** By what prompts pass through the model, which all ranks decide alike; empty on CPUs. */
  String prefill() {
    return get(actors.handles().get(0).task(LlamaActor::prefill).remote());
  }

  /**
   * How many seconds a prompt takes to its first token, on the slowest rank.
   *
   * @param bySlices whether it passes in slices, whatever else could be
   */
  double firstTokenSeconds(int length, boolean bySlices) {
    return getAll(actors.callAll(LlamaActor::firstTokenSeconds, length, bySlices)).stream()
        .mapToDouble(Double::doubleValue)
        .max()
        .orElseThrow();
  }

  /** The result of {@link DecodeTimes#toArray} of each rank. */
  List<double[]> times() {
    return getAll(actors.callAll(LlamaActor::times));
  }

  /** Ends the group in order, then the actors. */
  @Override
  public void close() {
    try (actors) {
      group.close();
    }
  }

  private <T> List<T> getAll(List<ObjectRef<T>> calls) {
    List<T> results = new ArrayList<>();
    for (ObjectRef<T> call : calls) {
      results.add(get(call));
    }
    return results;
  }

  private <T> T get(ObjectRef<T> call) {
    try {
      return Ray.get(call);
    } catch (RuntimeException e) {
      throw Failures.telling(e, group);
    }
  }
}
