/* A rollout as the deployment sees it that began it: it waits for the end, and writes what happens to its output. */
import { elapsedOf, type Clock } from '../../base/clock.js'
import { countOf } from '../../base/text.js'
import { Refusal } from '../../base/errors.js'
import type { RollEnd, Rolls, RolloutWatch } from '../../model/node-release.js'
import type { Store } from '../../store/database.js'
import { nodesOfProject } from '../../store/tables/fleet.js'
import { rolloutOfDeployment, type StoredRollout } from '../../store/tables/rollouts.js'
import type { Release } from './begin.js'
import { createRolloutLines } from './rollout-lines.js'
import type { Releases } from './releases.js'
import type { Rollings } from './rolling.js'
import type { RolloutEvents } from './rollout-events.js'

/** Dependencies of `createRolls`. */
export interface RollsNeeds {
  store: Store
  clock: Clock
  begin(release: Release): Promise<string>
  releases: Pick<Releases, 'sealOffer' | 'offerOf'>
  rollings: Rollings
  events: RolloutEvents
}

/** Creates the rollouts of deployments. */
export function createRolls({ store, clock, begin, releases, rollings, events }: RollsNeeds): Rolls {
  async function follow(
    { id, archiveBytes }: Pick<StoredRollout, 'id' | 'archiveBytes'>,
    { say, signal, isResumed }: RolloutWatch & { isResumed: boolean }
  ): Promise<RollEnd> {
    const take = createRolloutLines({ say, archiveBytes, nowMs: () => elapsedOf(clock), isResumed })
    for await (const event of events.follow(id, signal)) {
      take(event)
      if (event.type !== 'end') continue
      const { state, haltedReason, nodeCount } = event.rollout
      const outcome = state === 'done' || state === 'reverted' ? state : 'halted'
      if (outcome === 'done') return { outcome, sentence: `rolled out to ${countOf(nodeCount, 'node')}` }
      return { outcome, sentence: `The rollout ${id} was ${outcome}: ${haltedReason}` }
    }
    throw new Error(`The events of rollout ${id} have no end`)
  }

  return {
    async begin({ offer, rollbackOf, ...release }, watch) {
      const nodes = nodesOfProject(store, release.projectId)
      if (nodes.every(({ isDrained }) => isDrained)) throw noNodes()
      const given = rollbackOf === null ? offer : ((await releases.offerOf(rollbackOf)) ?? offer)
      const sealed = await releases.sealOffer(release.deployId, given)
      const id = await begin({ ...release, sealed })
      return follow({ id, archiveBytes: release.archiveBytes }, { ...watch, isResumed: false })
    },

    async follow(deployId, watch) {
      const rollout = rolloutOfDeployment(store, deployId)
      if (rollout === undefined) throw new Error(`Deployment ${deployId} has no rollout`)
      return follow(rollout, { ...watch, isResumed: true })
    },

    async halt(deployId, reason) {
      const rollout = rolloutOfDeployment(store, deployId)
      if (rollout === undefined) return
      await rollings.write(turn => {
        const last = turn.of(rollout.projectId)
        if (last?.stored.id === rollout.id) last.machine.halt(reason)
      })
    }
  }
}

function noNodes(): Refusal {
  const sentence = 'No node takes the release: all nodes of the project are drained'
  return new Refusal('conflict', 'no_nodes', sentence)
}
