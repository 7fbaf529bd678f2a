import { statSync } from 'node:fs'
import { countOf } from '../base/count.js'
import type { RanScript } from '../model/deployment.js'
import { bootId, knownProcess, type KnownProcess, type Marker } from '../proc/processes.js'
import { deleteScriptProcess, insertScriptProcess } from '../store/tables/script-processes.js'
import type { Stopped } from '../proc/stop.js'
import type { DeployHome } from './files.js'
import type { DeployNeeds } from './needs.js'

/** Which scripts of one deployment run: recorded, so that the next start finds them if svc is killed. */
export interface ScriptProcesses {
  /** What all processes of a script have in their environment, unless they take it out. */
  markerOf(step: RanScript['step']): Marker
  /** Its process group runs. Nobody waits until that is recorded: until then the next start finds it by the marker. */
  began(script: Pick<RanScript, 'step' | 'async'>, pid: number): void
  ended(step: RanScript['step']): void
}

/** A script that ends sooner is not worth two writes; but of one in the background nothing else says that it runs. */
const recordAfterMs = 200

/** No client can set such a variable (model/client-env.ts), and no script inherits one (proc/environment.ts). */
export function markerOf(deployId: string, step: RanScript['step']): Marker {
  return { name: 'SVC_SCRIPT', value: `${deployId}:${step}` }
}

/** As it is called in sentences. */
export const nameOf = (step: RanScript['step']): string => (step === 'preDeploy' ? 'pre-deploy' : 'post-deploy')

/** What the output says of a script that was stopped, but may not have ended altogether. */
export function linesOfRemains({ left, isPartial }: Stopped, step: RanScript['step']): string[] {
  const script = `the ${nameOf(step)} script`
  const count = countOf(left.length, 'process', 'processes')
  return [
    ...(left.length > 0 ? [`✗ ${count} of ${script} could not be ended: ${left.join(', ')}`] : []),
    ...(isPartial ? [`✗ ${script} may still have processes: the system hides those of other users from svc`] : [])
  ]
}

/** What tells a data directory from a copy of it. */
export function identityOf({ deployments }: Pick<DeployHome, 'deployments'>): string {
  const { dev, ino } = statSync(deployments)
  return `${dev}:${ino}`
}

export function createScriptProcesses(
  { store, home, log }: Pick<DeployNeeds, 'store' | 'home' | 'log'>, deployId: string
): ScriptProcesses {
  const recorded = new Set<RanScript['step']>()
  const timers = new Map<RanScript['step'], NodeJS.Timeout>()

  function record(step: RanScript['step'], known: KnownProcess): void {
    recorded.add(step)
    store
      .write(tx => insertScriptProcess(tx, { deployId, step, ...known, home: identityOf(home) }))
      .catch(error => log(`The processes of the script of deployment ${deployId} could not be recorded`, error))
  }

  return {
    markerOf: step => markerOf(deployId, step),
    began({ step, async }, pid) {
      const known = knownProcess(pid)
      // In the background a quick one that has ended by now is recorded, too: its step has no end before endBackground.
      if (async) record(step, known ?? { pid, startedAt: '', bootId: bootId() })
      else if (known !== null) timers.set(step, setTimeout(record, recordAfterMs, step, known))
    },
    ended(step) {
      clearTimeout(timers.get(step))
      // Where this cannot be recorded, the deployment's record says that the step has ended.
      if (recorded.delete(step)) store.write(tx => deleteScriptProcess(tx, { deployId, step })).catch(() => {})
    }
  }
}
