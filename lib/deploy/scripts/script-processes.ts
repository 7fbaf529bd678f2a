import { statSync } from 'node:fs'
import { countOf } from '../../base/text.js'
import type { RanScript } from '../../model/deployment.js'
import { bootId, knownProcess, type KnownProcess, type Marker, type Stopped } from '../../proc/stop.js'
import { deleteScriptProcess, insertScriptProcess } from '../../store/tables/deployments.js'
import type { DeployHome } from '../files.js'
import type { DeployNeeds } from '../needs.js'

/** The running scripts of one deployment, recorded so that the next start finds them if svc is killed. */
export interface ScriptProcesses {
  /** Returns the variable that all processes of a script have in their environment, unless they remove it. */
  markerOf(step: RanScript['step']): Marker
  /** Records a process group. Nobody waits for the write: until then, the next start finds the group by its marker. */
  began(script: Pick<RanScript, 'step' | 'async'>, pid: number): void
  /** Removes the record of a script that has ended. */
  ended(step: RanScript['step']): void
}

/**
 * Delay before a script is recorded: a short one is not worth two writes. A background script is recorded at once,
 * because nothing else says that it runs.
 */
const recordAfterMs = 200

/**
 * Returns the marker of a script. Clients cannot set it (model/client-env.ts), scripts do not inherit it
 * (proc/environment.ts).
 */
export function markerOf(deployId: string, step: RanScript['step']): Marker {
  return { name: 'SVC_SCRIPT', value: `${deployId}:${step}` }
}

/** Returns the name of a script as sentences use it. */
export const nameOf = (step: RanScript['step']): string => names[step]

const names = { preDeploy: 'pre-deploy', postDeploy: 'post-deploy', onFailure: 'on-failure' } as const

/** Returns the output lines about a stopped script whose processes may not all have ended. */
export function linesOfRemains({ left, isPartial }: Stopped, step: RanScript['step']): string[] {
  const script = `the ${nameOf(step)} script`
  const count = countOf(left.length, 'process', 'processes')
  return [
    ...(left.length > 0 ? [`✗ cannot stop ${count} of ${script}: ${left.join(', ')}`] : []),
    ...(isPartial
      ? [`✗ ${script} may still have running processes: the system hides processes of other users from svc`]
      : [])
  ]
}

/** Returns an identity that distinguishes a data directory from a copy of it. */
export function identityOf({ deployments }: Pick<DeployHome, 'deployments'>): string {
  const { dev, ino } = statSync(deployments)
  return `${dev}:${ino}`
}

/** Creates the recorder of the scripts of one deployment. */
export function createScriptProcesses(
  { store, home, log }: Pick<DeployNeeds, 'store' | 'home' | 'log'>,
  deployId: string
): ScriptProcesses {
  const recorded = new Set<RanScript['step']>()
  const timers = new Map<RanScript['step'], NodeJS.Timeout>()

  function record(step: RanScript['step'], known: KnownProcess): void {
    recorded.add(step)
    store
      .write(tx => insertScriptProcess(tx, { deployId, step, ...known, home: identityOf(home) }))
      .catch(error => log(`Cannot record the process of a script of deployment ${deployId}`, error))
  }

  return {
    markerOf: step => markerOf(deployId, step),
    began({ step, async }, pid) {
      const known = knownProcess(pid)
      // Even a background script that has already ended is recorded: its step has no end before endBackground.
      if (async) record(step, known ?? { pid, startedAt: '', bootId: bootId() })
      else if (known !== null) timers.set(step, setTimeout(record, recordAfterMs, step, known))
    },
    ended(step) {
      clearTimeout(timers.get(step))
      // If this fails, the deployment's record still says that the step has ended.
      if (recorded.delete(step)) store.write(tx => deleteScriptProcess(tx, { deployId, step })).catch(() => {})
    }
  }
}
