/*
 * The fleet of a server. Its modules are loaded at the start only if there is something of a fleet: a node, an
 * enrollment or a placement. Otherwise they are loaded at the first use.
 */
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { Hub } from '../fleet/hub/hub.js'
import type { HubRelays } from '../fleet/relay/hub-relays.js'
import { mayClientsSendScripts } from '../deploy/scripts/scripts.js'
import type { Incidents } from '../operate/notify/events.js'
import type { Webhook } from '../operate/notify/webhook.js'
import type { Deployer } from '../deploy/deployer.js'
import { systemActor } from '../model/audit.js'
import { findDeployment } from '../core/store/tables/deployments.js'
import { countEnrollments, countNodes, countPlacements } from '../core/store/tables/fleet.js'
import { type CheckHeaders, createVariablesKey } from '../projects/seal.js'
import type { Variables } from '../projects/variables.js'
import { createSealing, type Front } from './front.js'
import type { World } from './world.js'

export type FleetService = ReturnType<typeof createFleet>

export function createFleet(
  world: World,
  { audit, serverKey, nodes, settings }: Pick<Front, 'audit' | 'serverKey' | 'nodes' | 'settings'>,
  work: () => {
    deployer: Pick<Deployer, 'hasRunning' | 'mark'>
    variables: Pick<Variables, 'open'>
    headers: Pick<CheckHeaders, 'open'>
    webhook: Pick<Webhook, 'incident'>
    incidents: Pick<Incidents, 'drifted'>
  }
) {
  const { store, home, keys, publicUrl, log } = world
  let loading: Promise<Hub> | null = null
  let running: Hub | null = null
  let isStarted = false

  async function load(): Promise<Hub> {
    const { createHub } = await import('../fleet/hub/hub.js')
    running = createHub({
      ...world,
      audit,
      serverKey,
      hubs: () => world.hubUrls?.() ?? (publicUrl === null ? [] : [publicUrl]),
      hasRunning: projectId => work().deployer.hasRunning(projectId),
      endSessions: nodes.end,
      tell: incident => work().webhook.incident(incident),
      drifted(projectId, isDrifted, node) {
        work()
          .incidents.drifted(projectId, isDrifted ? null : 0, node)
          .catch(error => log('Cannot tell of edited files', error))
      },
      ended(deployId, state, rolloutId) {
        // While it runs, it gets its result from the rollout.
        const [was, is] = state === 'done' ? (['failed', 'success'] as const) : (['success', 'failed'] as const)
        if (findDeployment(store, deployId)?.status !== was) return
        work()
          .deployer.mark(deployId, is, {
            actor: systemActor,
            why: `The rollout ${rolloutId} ${state === 'done' ? 'is done' : 'was reverted'}`
          })
          .catch(error => log(`Cannot correct the record of deployment ${deployId}`, error))
      },
      fromSettings: project => ({
        allowClientScripts: mayClientsSendScripts(project, settings.flag('allow_client_scripts')),
        scriptTimeoutSeconds: project.scriptTimeoutSeconds ?? settings.number('script_timeout')
      }),
      megabytesPerSecond: () => settings.number('fleet_upload_rate'),
      sealing: createSealing(store, keys?.variables ?? createVariablesKey(home.variablesKey), 'rollout'),
      variables: { open: projectId => work().variables.open(projectId) },
      headers: { open: (projectId, policy) => work().headers.open(projectId, policy) }
    })
    if (isStarted) running.start()
    return running
  }

  function hub(): Promise<Hub> {
    loading ??= load()
    return loading
  }

  const isUsed = (): boolean => countNodes(store) > 0 || countEnrollments(store) > 0 || countPlacements(store) > 0

  let relaying: Promise<HubRelays> | null = null
  async function createRelays(): Promise<HubRelays> {
    const [{ links }, { HubRelays }] = await Promise.all([hub(), import('../fleet/relay/hub-relays.js')])
    return new HubRelays({ links, ids: world.ids })
  }

  return {
    /** Returns the hub. It is loaded at the first use. */
    hub,
    /** Returns the relays to its nodes. */
    relays: (): Promise<HubRelays> => (relaying ??= createRelays()),
    /** Whether there is something of a fleet: a node, an enrollment or a placement. */
    isUsed,
    /** Returns the hub if it runs. */
    running: (): Hub | null => running,

    /** Lets the hub work: it goes on with rollouts, and takes note of lost nodes. A follower of a cluster does not. */
    async start(): Promise<void> {
      if (existsSync(home.restored)) {
        // Nodes remember more than a restored database.
        if (isUsed()) await (await hub()).restored()
        await rm(home.restored, { force: true })
      }
      isStarted = true
      running?.start()
      if (isUsed()) await hub()
    },
    async stop(): Promise<void> {
      await (await loading)?.stop()
    }
  }
}
