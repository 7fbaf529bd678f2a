import type { DeploymentRow } from '../../lib/model/deployment.js'

/** Creates a function that returns the deployments that finished since its last call. Pure except for its memory. */
export function createEnded(): (newest: readonly DeploymentRow[]) => DeploymentRow[] {
  let going = new Set<string>()
  let newestStart: string | null = null
  return newest => {
    const isGoing = ({ status }: DeploymentRow): boolean => status === 'queued' || status === 'running'
    // A deployment may have started and finished between two calls.
    const isNew = ({ startTime }: DeploymentRow): boolean => newestStart !== null && startTime > newestStart
    const ended = newest.filter(each => !isGoing(each) && (going.has(each.id) || isNew(each)))
    going = new Set(newest.filter(isGoing).map(({ id }) => id))
    newestStart = [newestStart ?? '', ...newest.map(({ startTime }) => startTime)].sort().at(-1) as string
    return ended
  }
}
