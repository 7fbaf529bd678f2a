import { join } from 'node:path'
import { createHub, type Hub } from '../../lib/fleet/hub/hub.js'
import { defaultRolloutPolicy, type RolloutPolicy } from '../../lib/model/rollout.js'
import type { FleetNode } from '../../lib/model/node.js'
import { readAuditTree } from '../../lib/core/store/tables/audit.js'
import { insertNode, insertPlacement } from '../../lib/core/store/tables/fleet.js'
import { insertProject } from '../../lib/core/store/tables/projects.js'
import type { StoredRollout } from '../../lib/core/store/tables/rollouts.js'
import { createVariablesKey } from '../../lib/projects/seal.js'
import { createOffers } from '../../lib/model/fleet-wire.js'
import { createSealing } from '../../lib/server/front.js'
import { aProject } from '../core/store/stage.js'
import { openStage } from './store.js'
import { createServerKey } from '../../lib/core/audit/signed-note.js'

/** Returns a node. Its name is `plant-<letter>`, its id `node_<letter>`. */
export function aNode(letter: string, given: Partial<FleetNode> = {}): FleetNode {
  return {
    id: `node_${letter}`,
    name: `plant-${letter}`,
    labels: {},
    publicKey: Buffer.alloc(32, letter).toString('base64'),
    isDrained: false,
    enrolledAt: '2030-01-01T00:00:00.000Z',
    lastSeenAt: null,
    version: null,
    freeBytes: null,
    sharedSince: null,
    ...given
  }
}

/** Returns a rollout of `proj_a`. */
export function aRollout(given: Partial<StoredRollout> = {}, policy: Partial<RolloutPolicy> = {}): StoredRollout {
  return {
    id: 'ro_a',
    projectId: 'proj_a',
    number: 1,
    deployId: 'dep_a',
    treeSha256: 'tree',
    archiveSha256: 'archive',
    archiveBytes: 100,
    policy: { ...defaultRolloutPolicy, ...policy },
    state: 'preparing',
    wave: 0,
    waves: 1,
    lastAttempt: 0,
    pausedUntil: null,
    revertFrom: null,
    haltedReason: null,
    createdAt: '2030-01-01T00:00:00.000Z',
    endedAt: null,
    sealed: null,
    ...given
  }
}

/** Opens a store with nodes, the project `proj_a`, which is placed on them, and a hub whose time the test moves. */
export async function openFleet(t: Parameters<typeof openStage>[0], letters: readonly string[] = []) {
  const stage = await openStage(t)
  const { store, directory } = stage
  await store.write(tx => {
    insertProject(tx, aProject({ tagIds: [] }))
    for (const letter of letters) {
      insertNode(tx, aNode(letter))
      const nothing = { liveDeployId: null, liveTree: null, seenAt: null, isDrifted: false }
      insertPlacement(tx, { projectId: 'proj_a', nodeId: `node_${letter}`, deployPath: '/srv/a', ...nothing })
    }
  })
  const sealing = createSealing(store, createVariablesKey(join(directory, 'variables.key')), 'rollout')
  const serverKey = createServerKey(join(directory, 'keys'))
  // It writes its file now, and not while the directory is removed.
  await serverKey.signers(readAuditTree(store).origin)
  const ended: string[] = []
  const running = new Set<string>()
  const told: string[] = []
  const done: string[] = []
  /** The addresses of the hubs, which a test may change. */
  const addresses = ['https://hub.example']
  const hubs: Hub[] = []
  /** The setting `allow_client_scripts`. */
  const mayScripts = { value: true }
  t.teardown(() => Promise.all(hubs.map(hub => hub.stop())))
  const start = (): Hub => {
    const hub = createHub({
      ...stage,
      serverKey,
      version: '2.0.0',
      hubs: () => addresses,
      hasRunning: projectId => running.has(projectId),
      fromSettings: ({ allowClientScripts, scriptTimeoutSeconds }) => ({
        allowClientScripts: allowClientScripts ?? mayScripts.value,
        scriptTimeoutSeconds
      }),
      megabytesPerSecond: () => 0,
      sealing,
      variables: { open: async () => [{ name: 'MODE', value: 'fast', secret: false }] },
      ended: (deployId, state) => void done.push(state === 'done' ? deployId : `${deployId} ${state}`),
      endSessions: nodeId => void ended.push(nodeId),
      tell: () => {},
      drifted: () => {},
      log: (message, error) => void told.push(`${message}: ${(error as Error).message}`)
    })
    hubs.push(hub)
    return hub
  }
  return {
    ...stage,
    offers: createOffers(sealing),
    serverKey,
    mayScripts,
    ended,
    running,
    told,
    done,
    addresses,
    start,
    hub: start()
  }
}

/** The user of the tests. */
export const ana = { name: 'token:ana', ip: '192.0.2.1' }
