// What benchmarks.scalar calls: the work of the compiled path, one seed after the other, in plain scalar C++.
#include "policies.h"
#include "references.h"

namespace {

// A cell by its number on the grid with its border.
uint32_t world_of(const Grid &grid, const std::vector<uint32_t> &ignition_step, uint32_t *out) {
    uint32_t burned = 0;
    for (size_t i = 0; i < grid.inner.size(); i++) {
        const uint32_t step = ignition_step[grid.inner[i]];
        burned += step != NEVER;
        if (out) out[i] = step;
    }
    return burned;
}

}  // namespace

extern "C" {

// Fire worlds of seeds first, first + 1, ...: [count] each, and [count, height * width] steps unless null.
void fire_worlds(const Scenario *scenario, uint64_t first, int64_t count, uint32_t *burned, uint64_t *position,
                 uint32_t *steps) {
    const Grid grid(*scenario);
    for (int64_t n = 0; n < count; n++) {
        Fire fire(*scenario, grid, first + uint64_t(n));
        fire.finish(0);
        burned[n] = fire.burned;
        position[n] = fire.stream.position;
        if (steps) world_of(grid, fire.ignition_step, steps + n * int64_t(grid.inner.size()));
    }
}

// The same with the plain loop.
void dense_fire_worlds(const Scenario *scenario, uint64_t first, int64_t count, uint32_t *burned, uint64_t *position,
                       uint32_t *steps) {
    const Grid grid(*scenario);
    std::vector<uint32_t> found;
    for (int64_t n = 0; n < count; n++) {
        position[n] = dense_fire(*scenario, grid, first + uint64_t(n), found).position;
        burned[n] = world_of(grid, found, steps ? steps + n * int64_t(grid.inner.size()) : nullptr);
    }
}

// L, M and D of everybody at step 0: [count, people] each.
void references(const Scenario *scenario, uint64_t first, int64_t count, uint32_t *earliest, uint32_t *moves,
                uint32_t *danger, uint32_t *burned, uint64_t *position) {
    const Grid grid(*scenario);
    for (int64_t n = 0; n < count; n++) {
        Fire fire(*scenario, grid, first + uint64_t(n));
        fire.finish(0);
        const std::vector<Values> tables = first_tables(*scenario, grid, fire.ignition_step);
        burned[n] = fire.burned;
        position[n] = fire.stream.position;
        for (const int cell : grid.person) {
            *earliest++ = tables[cell].earliest;
            *moves++ = tables[cell].moves;
            *danger++ = tables[cell].danger;
        }
    }
}

// Whole episodes of a policy: steps [count], the others [count, people]. Returns 0 for an unknown policy.
int rollouts(const Scenario *scenario, const char *policy_name, uint64_t policy_seed, uint64_t first, int64_t count,
             int32_t *steps, int32_t *status, int32_t *resolution_step, int32_t *exit_index, int32_t *cause,
             int32_t *cells_moved) {
    const Grid grid(*scenario);
    const auto policy = make_policy(policy_name, grid, policy_seed);
    if (!policy) return 0;
    std::vector<int> action(grid.person.size());
    for (int64_t n = 0; n < count; n++) {
        Episode episode(*scenario, grid, first + uint64_t(n));
        policy->reset();
        while (!episode.done()) {
            policy->act(episode, action);
            episode.step(action);
        }
        steps[n] = episode.steps;
        for (const Person &person : episode.people) {
            *status++ = person.status;
            *resolution_step++ = person.resolution_step;
            *exit_index++ = person.exit;
            *cause++ = person.cause;
            *cells_moved++ = person.cells_moved;
        }
    }
    return 1;
}

// Steps of `lanes` environments with given actions [steps, lanes, people]. Lane n starts with seed first + n; an
// episode that has ended starts again with the seed `stride` later. Per lane: episodes ended, people evacuated, casualties,
// cells moved (of ended episodes), and of the state at the end the steps, active people, the sum of their cells,
// burning cells and the position of the stream.
void environment_steps(const Scenario *scenario, uint64_t first, uint64_t stride, int64_t lanes, int64_t all_lanes,
                       int64_t steps, const int8_t *actions, uint64_t *out) {
    const Grid grid(*scenario);
    const int64_t people = int64_t(grid.person.size());
    std::vector<int> action(grid.person.size());
    for (int64_t n = 0; n < lanes; n++) {
        uint64_t seed = first + uint64_t(n), *result = out + 9 * n;
        auto episode = std::make_unique<Episode>(*scenario, grid, seed);
        for (int64_t t = 0; t < steps; t++) {
            const int8_t *now = actions + (t * all_lanes + n) * people;
            std::copy(now, now + people, action.begin());
            episode->step(action);
            if (!episode->done()) continue;
            result[0]++;
            for (const Person &person : episode->people) {
                result[1] += person.status == EVACUATED;
                result[2] += person.status == CASUALTY;
                result[3] += uint64_t(person.cells_moved);
            }
            seed += stride;
            episode = std::make_unique<Episode>(*scenario, grid, seed);
        }
        result[4] = uint64_t(episode->steps);
        result[5] = uint64_t(episode->active);
        for (const Person &person : episode->people)
            if (person.status == ACTIVE)
                result[6] += uint64_t((person.cell / grid.stride - 1) * grid.width + person.cell % grid.stride - 1);
        result[7] = episode->fire.burned;
        result[8] = episode->fire.stream.position;
    }
}

}  // extern "C"
